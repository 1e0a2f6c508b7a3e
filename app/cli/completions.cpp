#include "app/cli/completions.h"

#include <algorithm>

#include "app/cli/tree.h"
#include "app/commands/list.h"
#include "app/config/config.h"
#include "engine/settings/fields.h"

namespace ft::commands {
namespace {

// Returns the words between { and } of a type such as TEXT:{bash,zsh,fish}; empty: it has none.
Names choices_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const std::size_t open = type.find('{'), close = type.find('}');
  if (open == type.npos || close == type.npos) return {};
  return CLI::detail::split(type.substr(open + 1, close - open - 1), ',');
}

Names values_of(const CLI::Option& option) {
  if (const Names choices = choices_of(option); !choices.empty()) return choices;
  const std::string type = option.get_type_name();
  if (type == "DIR") return {":directory"};
  return type == "FILE" || type == "PATH" ? Names{":file"} : Names{};
}

bool takes_value(const CLI::Option& option) { return option.get_items_expected_max() > 0; }

const CLI::Option* option_of(const CLI::App& app, const std::string& word) {
  for (const CLI::Option* option : app.get_options())
    if (option->check_name(word)) return option;
  return nullptr;
}

const CLI::App* subcommand_of(const CLI::App& app, const std::string& word) {
  for (const CLI::App* sub : app.get_subcommands({}))
    if (sub->get_name() == word) return sub;
  return nullptr;
}

// Offers settings, one section at a time, and their values: "train" -> training., "training.op" ->
// training.optim=
Names settings_for(const std::string& typed, const std::string& section) {
  Names all;
  const std::size_t equals = typed.find('=');
  const std::vector<Setting> known = describe<RunConfig>();
  if (equals != typed.npos) {
    const std::string path = typed.substr(0, equals);
    const auto at =
        std::find_if(known.begin(), known.end(), [&](const Setting& s) { return s.path == path; });
    if (at == known.end()) return all;
    for (const std::string& word : at->rules.choices) all.push_back(path + "=" + word);
    if (at->type == "true or false") all.insert(all.end(), {path + "=true", path + "=false"});
    if (at->rules.or_auto) all.push_back(path + "=auto");
    if (at->rules.is_path) all.emplace_back(":file");
    return all;
  }
  const std::string above = typed.substr(0, typed.rfind('.') + 1);  // "training."; empty at the top
  for (const Setting& s : known) {
    if (!s.path.starts_with(section) && !section.starts_with(s.path + ".")) continue;
    if (s.path.find("[]") != s.path.npos || s.rules.only_default || s.path == "$schema") continue;
    if (s.path.substr(0, s.path.rfind('.') + 1) == above)
      all.push_back(s.path + (s.type == "section" ? "." : "="));
  }
  return all;
}

Names topics(const CLI::App& root, const Names& before) {
  Names all;
  if (before.size() == 1 && before[0] == "config") {
    for (const Setting& s : describe<RunConfig>())
      if (s.type == "section" && s.path.find('.') == s.path.npos) all.push_back(s.path);
    return all;
  }
  const CLI::App* at = &root;
  for (const std::string& word : before)
    if (at) at = subcommand_of(*at, word);
  if (!at) return all;
  all = names_below(*at);
  if (before.empty()) all.emplace_back("config");
  return all;
}

// The position in the command line, after the words before the typed one.
struct Place {
  const CLI::App* app;
  const CLI::Option* waiting = nullptr;  // the option whose value is being typed
  Names positional;                      // words without an option
};

Place place_of(const CLI::App& root, const Names& words) {
  Place place{&root};
  for (const std::string& word : words) {
    if (place.waiting) {
      place.waiting = nullptr;
    } else if (const CLI::Option* option = word.starts_with('-') ? option_of(*place.app, word) : nullptr) {
      if (takes_value(*option)) place.waiting = option;
    } else if (const CLI::App* sub = subcommand_of(*place.app, word)) {
      place = {sub};
    } else if (const CLI::App* inner =
                   place.app->get_prefix_command() ? subcommand_of(root, word) : nullptr) {
      place = {inner};  // ft launch -n 2 train ...
    } else if (!word.starts_with('-')) {
      place.positional.push_back(word);
    }
  }
  return place;
}

}  // namespace

Names completions(const CLI::App& root, const Names& words) {
  const std::string typed = words.empty() ? "" : words.back();
  const Place place = place_of(root, words.empty() ? words : Names(words.begin(), words.end() - 1));
  Names all;
  if (place.waiting) {
    all = values_of(*place.waiting);
  } else if (typed.starts_with('-')) {
    for (const CLI::Option* option : place.app->get_options())
      for (const std::string& name : option->get_lnames()) all.push_back("--" + name);
  } else if (place.app->get_name() == "help") {
    all = topics(root, place.positional);
  } else if (place.app->get_prefix_command()) {
    for (const Command* command : kRankCommands) all.emplace_back(command->name);
  } else {
    all = names_below(*place.app);
    for (const CLI::Option* option : place.app->get_options()) {
      if (!option->get_positional()) continue;
      const std::string type = option->get_type_name();
      const Names more = type == "a.b=c"                  ? settings_for(typed, "")
                         : type == "generation.key=value" ? settings_for(typed, "generation.")
                                                          : values_of(*option);
      all.insert(all.end(), more.begin(), more.end());
    }
  }
  std::erase_if(all, [&](const std::string& one) { return one[0] != ':' && !one.starts_with(typed); });
  return all;
}

}  // namespace ft::commands
