#include "app/begin/begin.h"

#include <algorithm>
#include <filesystem>

#include "app/config/missing_ids.h"
#include "app/ranks/ranks.h"
#include "app/screen/format.h"
#include "engine/files/file.h"

namespace ft {
namespace {

namespace fs = std::filesystem;

SettingsText tree_of(const BeginArgs& args, const std::vector<std::string>& overrides) {
  SettingsText tree{Json::object(), {}, "ft train --model"};
  const auto put = [&](const char* key, Json value) { put_setting(tree, key, std::move(value), 0, key); };
  put("model.model_name_or_path", args.model);
  put("data.datasets", Json::array({Json{{"path", args.data}}}));
  if (!args.output.empty()) put("training.output_dir", args.output);
  if (args.method != BeginMethod::chosen)
    put("finetuning_type", args.method == BeginMethod::full ? "full" : "lora");
  if (args.method == BeginMethod::qlora) put("quantization.load_in_4bit", true);
  for (const std::string& assignment : overrides) override_setting(tree, assignment);
  return tree;
}

// Throws UserError (config) for settings with which none can be chosen.
void refuse_others(const SettingsText& tree) {
  if (find_setting(tree.value, "deepspeed"))
    throw UserError(Exit::config,
                    "deepspeed: its file sets what ft train --model chooses; use it with --config");
  if (const Json* streams = find_setting(tree.value, "data.streaming"); streams && *streams == true)
    throw UserError(Exit::config,
                    "data.streaming: ft train --model reads all of the data to choose settings; use a "
                    "run.json with --config");
}

// Returns the settings of `all` that are in `wanted` too.
Json only(const Json& all, const Json& wanted) {
  if (all.is_object() && wanted.is_object()) {
    Json some = Json::object();
    for (const auto& [key, value] : all.items())
      if (wanted.contains(key)) some[key] = only(value, wanted[key]);
    return some;
  }
  if (!all.is_array() || !wanted.is_array() || all.size() != wanted.size()) return all;
  Json some = Json::array();
  for (std::size_t i = 0; i < all.size(); ++i) some.push_back(only(all[i], wanted[i]));
  return some;
}

// Returns the column at which reasons begin. Settings that are too long for it push theirs to the right.
std::size_t column_of_reasons(const std::vector<Decision>& decisions, int screen) {
  constexpr std::size_t kNarrow = 36, kWide = 42, kNeeded = 90;
  std::size_t longest = 0;
  for (const Decision& d : decisions)
    if (const std::size_t size = d.assignment().size() + 2; size <= kWide) longest = std::max(longest, size);
  const bool narrow = screen > 0 && static_cast<std::size_t>(screen) < kNeeded;
  return narrow ? std::min(longest, kNarrow) : longest;
}

}  // namespace

std::string default_output(const std::string& data) {
  std::string name = fs::path(without_slash(data)).filename().string();
  name = name.substr(0, name.find('.'));
  if (name.empty() || name.find_first_of("*?[") != name.npos) name = "run";
  return "outputs/" + name;
}

Beginning::Beginning(const BeginArgs& args, const std::vector<std::string>& overrides, int ranks)
    : given_(tree_of(args, overrides)), ranks_(ranks), as_given_(args.as_given) {
  refuse_others(given_);
  if (!as_given_ && !find_setting(given_.value, "training.output_dir"))
    put({"training.output_dir", default_output(args.data), "named after the data; --output DIR changes it"});
  config_ = with({});
}

void Beginning::put(const Decision& d) {
  put_setting(given_, d.key, d.value, 0, d.assignment());
  decisions_.push_back(d);
}

RunConfig Beginning::with(const std::vector<Decision>& more) const {
  SettingsText tree = given_;
  for (const Decision& d : more) put_setting(tree, d.key, d.value, 0, d.assignment());
  return config_of(tree, "");
}

// Decides to fetch ids that are missing, and fetches them. A name that may be a mistyped path is left to the
// error about it.
void Beginning::fetch() {
  if (find_setting(given_.value, "model.download")) return;
  const std::vector<std::string> missing = missing_ids(config_);
  if (missing.empty()) return;
  put({"model.download", true, missing[0] + " is not in the hub's cache"});
  config_ = with({});
}

const RunConfig& Beginning::choose(Screen& screen) {
  if (as_given_) return config_;
  fetch();
  const GridShape grid = grid_of(on_ranks(config_, ranks_).distributed);
  BeginFacts facts = machine_facts(
      find_setting(given_.value, "device") ? std::optional(config_.on_gpu()) : std::nullopt, grid.data);
  add_model_facts(facts, config_);
  const Decision objective{"objective.type", objective_of(facts, given_.value).name, ""};
  add_data_facts(facts, with({objective}), screen);
  Working working(screen, "planning");
  working(0, 1);
  for (const Decision& d : fit_decisions(
           [&](const Thrift& thrift) { return decide(facts, given_.value, thrift); }, facts.ranks > 1,
           [&](const std::vector<Decision>& all) { return on_ranks(with(all), ranks_); }))
    put(d);
  return config_ = with({});
}

void Beginning::show(Screen& screen) const {
  if (decisions_.empty()) return;
  screen.line(
      "chosen for this model, this data and this machine; add a setting to the command to change it:");
  const std::size_t width = column_of_reasons(decisions_, screen.width());
  for (const Decision& d : decisions_) {
    const std::string set = d.assignment();
    const std::string space(set.size() < width ? width - set.size() : 2, ' ');
    screen.line(str("  ", set, space, screen.dim(d.reason)), static_cast<int>(width + 2));
  }
  screen.line("");
}

std::string Beginning::as_file(const std::string& folder) const {
  std::error_code error;
  const bool here = fs::equivalent(folder, fs::current_path(error), error);
  Json unused;
  const Json all = Writer(unused, !here).json(config_, {});
  return only(all, given_.value).dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace ft
