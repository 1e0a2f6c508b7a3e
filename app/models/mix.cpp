#include "app/models/mix.h"

#include <charconv>
#include <cmath>
#include <system_error>

#include "engine/files/file.h"
#include "engine/files/staged_folder.h"
#include "lora/mix.h"

namespace ft {
namespace {

// Reads FOLDER=WEIGHT, or a folder with the default weight 1.
lora::MixPart part_of(const std::string& text) {
  const auto equals = text.rfind('=');
  if (equals == std::string::npos || path_exists(text)) return {text, 1};
  lora::MixPart part{text.substr(0, equals)};
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data() + equals + 1, end, part.weight);
  if (error != std::errc{} || at != end || !std::isfinite(part.weight))
    throw UserError(Exit::config, str("--adapter: ", printable(text), ": the text after = is not a weight"));
  return part;
}

lora::MixRule rule_of(const MergeArgs& args) {
  const std::string word = args.combination_type.value_or(name_of(lora::Combination::cat));
  lora::MixRule rule{.combination = value_of<lora::Combination>(word).value()};
  using enum lora::Combination;
  const bool dare = rule.combination == dare_linear || rule.combination == dare_ties,
             elects = rule.combination == ties || rule.combination == dare_ties;
  const auto only_for = [&](bool given, bool used, const char* option, const char* what) {
    if (given && !used)
      throw UserError(Exit::config,
                      str(option, " has no effect with --combination-type ", word, "; it is for ", what));
  };
  const bool prunes = lora::prunes(rule.combination);
  only_for(args.density.has_value(), prunes, "--density", "ties, dare_linear, dare_ties, magnitude_prune");
  only_for(args.svd_rank.has_value(), rule.combination == svd, "--svd-rank", "svd");
  only_for(args.majority_sign_method.has_value(), elects, "--majority-sign-method", "ties, dare_ties");
  only_for(args.seed.has_value(), dare, "--seed", "dare_linear, dare_ties");
  if (prunes && !args.density)
    throw UserError(Exit::config, str("--density: ", word, " needs one, such as 0.5"));
  rule.density = args.density.value_or(1);
  rule.rank = args.svd_rank;
  rule.by_frequency = args.majority_sign_method == "frequency";
  rule.seed = args.seed.value_or(0);
  return rule;
}

}  // namespace

bool is_mix(const MergeArgs& args) {
  return args.adapters.size() > 1 || part_of(args.adapters.at(0)).folder != args.adapters[0] ||
         args.combination_type || args.density || args.svd_rank || args.majority_sign_method || args.seed;
}

std::vector<std::string> combination_types() {
  std::vector<std::string> all;
  for (const auto& w : words(lora::Combination{})) all.emplace_back(w.word);
  return all;
}

Exit merge_mixed(const MergeArgs& args) {
  std::vector<lora::MixPart> parts;
  for (const std::string& text : args.adapters) parts.push_back(part_of(text));
  const StagedFolder mixed(args.output + ".mix");  // removed at the end of this function
  lora::write_mix(mixed.path(), parts, rule_of(args));
  MergeArgs one = args;
  one.adapter = mixed.path();
  return merge(one);
}

}  // namespace ft
