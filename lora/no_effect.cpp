#include "lora/no_effect.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <variant>

#include "engine/core/error.h"
#include "engine/files/json.h"
#include "engine/layers/linear.h"
#include "lora/matching.h"
#include "lora/peft_config.h"

namespace ft::lora {
namespace {

// Returns every module, by PEFT's name: Linears, and all modules around parameters.
std::set<std::string> modules_of(Model& model) {
  std::set<std::string> names;
  EachLinear linears([&](Linear& l) { names.insert(in_peft(l.name)); });
  model.visit(linears);
  EachParameter parameters([&](Parameter& p) {
    if (p.name.starts_with(kPeftPrefix)) return;
    const std::string name = in_peft(p.name);
    for (auto dot = name.find('.'); dot != name.npos; dot = name.find('.', dot + 1))
      names.insert(name.substr(0, dot));
  });
  model.visit(parameters);
  return names;
}

bool fits_any(const Expression& e, const std::set<std::string>& names) {
  return std::ranges::any_of(names, [&](const std::string& name) { return e.matches(name); });
}

// Returns true if the embedding or the head, which shared a table before, is trained completely.
bool head_was_parted(Model& model, const Origin& origin) {
  bool has_head = false, trained = false;
  EachParameter each([&](Parameter& p) {
    const bool head = p.name == origin.head + ".weight", table = p.name == origin.embedding + ".weight";
    has_head |= head;
    trained |= (head || table) && p.trainable;
  });
  model.visit(each);
  return has_head && trained;
}

// Returns the parts of a text between commas, without spaces.
std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    std::string part = text.substr(at, comma - at);
    std::erase(part, ' ');
    if (!part.empty()) parts.push_back(part);
    at = comma + 1;
  }
  return parts;
}

}  // namespace

std::string list_meant(const Modules& modules, Model& model) {
  const auto* text = std::get_if<std::string>(&modules);
  if (!text) return "";
  const std::set<std::string> names = modules_of(model);
  const std::vector<std::string> parts = split(*text);
  const bool all = std::ranges::all_of(parts, [&](const std::string& part) {
    return std::ranges::any_of(names, [&](const std::string& name) { return ends_with_module(name, part); });
  });
  if (parts.empty() || !all) return "";
  return str(
      ": a text is a regular expression for complete names, as in PEFT; for the ends of names write the "
      "list ",
      Json(parts).dump());
}

std::vector<std::string> without_effect(Model& model, const LoraConfig& config,
                                        const std::set<std::string>& adapted, const Origin& origin) {
  std::vector<std::string> warnings;
  const auto warn = [&](const char* setting, const std::string& what) {
    warnings.push_back(str(origin.prefix, setting, ": ", what));
  };
  const std::set<std::string> all = modules_of(model);
  const auto check = [&](const char* setting, const auto& patterns) {
    for (const auto& [key, value] : patterns) {
      const Expression e("(.*\\.)?(" + key + ")", origin.prefix + setting, origin.exit);
      if (fits_any(e, adapted)) continue;
      warn(setting, str("\"", printable(key), "\" fits no module",
                        fits_any(e, all) ? " that gets an adapter" : "", " and has no effect"));
    }
  };
  check("rank_pattern", config.rank_pattern);
  check("alpha_pattern", config.alpha_pattern);
  if (config.exclude_modules) {
    Matcher excluded(*config.exclude_modules, origin.prefix + "exclude_modules", origin.exit);
    for (const std::string& name : all) excluded.matches(name);
    for (const std::string& key : excluded.unused())
      warn("exclude_modules", str("\"", printable(key), "\" fits no module and excludes nothing",
                                  list_meant(*config.exclude_modules, model)));
  }
  if (origin.every_target && origin.tied_head && head_was_parted(model, origin))
    warn("modules_to_save",
         "trains a copy of the table that embedding and head of this model share, so that the two differ; "
         "lora.ensure_weight_tying=true trains it for both");
  if (config.ensure_weight_tying && !origin.tied_head)
    warn("ensure_weight_tying",
         "the head of this model does not share the embedding's table; it has no effect");
  return warnings;
}

}  // namespace ft::lora
