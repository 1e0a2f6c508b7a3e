// Rules about the settings of all objectives.
#include <algorithm>

#include "engine/core/error.h"
#include "engine/train/objectives/config.h"
#include "engine/train/objectives/list.h"

namespace ft {
namespace {

std::string joined(const std::vector<std::string>& words) {
  std::string all;
  for (const std::string& word : words) all += (all.empty() ? "" : ", ") + word;
  return all;
}

bool has_setting(const ObjectiveKind& kind, const ObjectiveConfig& c, const std::string& name) {
  if (!kind.settings) return false;
  const std::vector<GivenSetting> all = kind.settings(c);
  return std::ranges::any_of(all, [&](const GivenSetting& s) { return s.name == name; });
}

void check_settings_of_type(const ObjectiveConfig& c, const Refuse& refuse) {
  for (const auto& [name, given] : settings_of<ObjectiveSettings>(c)) {
    if (!given || has_setting(*c.type, c, name)) continue;
    std::vector<std::string> owners;
    for (const ObjectiveKind* kind : ObjectiveKind::all())
      if (has_setting(*kind, c, name)) owners.emplace_back(kind->name);
    refuse(str("objective.", name, ": objective.type ", name_of(c.type), " has no such setting; it is of ",
               joined(owners)));
  }
}

void check_losses(const ObjectiveConfig& c, const Refuse& refuse) {
  if (c.loss_type.empty()) return;
  const std::vector<std::string> known = c.type->losses();
  for (const std::string& loss : c.loss_type)
    if (std::ranges::count(known, loss) == 0)
      refuse(str("objective.loss_type: ", loss, " is not of objective.type ", name_of(c.type), ", which has ",
                 joined(known)));
  if (!c.type->adds_losses && c.loss_type.size() > 1)
    refuse(str("objective.loss_type: objective.type ", name_of(c.type), " takes one, not a list"));
}

// Lists files and folders among the settings that it visits.
struct FileLister {
  std::vector<NamedFile> all;
  void operator()(const char* name, const std::optional<std::string>& value, const char*, auto... rule) {
    Rules rules;
    (rule(rules), ...);
    if (value && rules.is_path) all.push_back({name, *value, rules.or_hub_id});
  }
  template <class T>
  void operator()(const char*, const T&, const char*, auto...) {}
};

}  // namespace

std::span<const ObjectiveKind* const> ObjectiveKind::all() { return objectives::kObjectives; }

std::vector<std::string> all_losses() {
  std::vector<std::string> all;
  for (const ObjectiveKind* kind : ObjectiveKind::all()) {
    if (!kind->losses) continue;
    for (const std::string& word : kind->losses())
      if (std::ranges::count(all, word) == 0) all.push_back(word);
  }
  return all;
}

std::vector<NamedFile> files_of(const ObjectiveConfig& c) {
  FileLister lister;
  ObjectiveSettings(c).fields(lister);
  return std::move(lister.all);
}

void check_group(const GroupSettings& c, const Refuse& refuse) {
  if (c.num_generations == 1)
    refuse("objective.num_generations: must be at least 2, it is 1: answers to one prompt are compared");
}

void check_scale(const BetaSetting& c, const Refuse& refuse) {
  if (c.beta == 0) refuse("objective.beta: must be above 0, it is 0");
}

void check(const ObjectiveConfig& c, const Refuse& refuse) {
  check_settings_of_type(c, refuse);
  check_losses(c, refuse);
  if (c.type->check) c.type->check(c, refuse);
}

}  // namespace ft
