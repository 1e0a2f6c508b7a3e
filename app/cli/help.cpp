// ft help.
#include "app/cli/help.h"

#include <algorithm>
#include <iostream>
#include <sstream>

#include "app/cli/manual.h"
#include "app/cli/tree.h"
#include "app/commands/list.h"
#include "app/config/help_config.h"
#include "app/config/schema.h"
#include "app/screen/screen.h"
#include "engine/core/suggest.h"

namespace ft::commands {

// On a terminal, breaks the lines so that they fit. Examples are not broken, so that they can be copied.
Exit show_help(const std::string& text) {
  constexpr std::size_t kDescription = 30;  // CLI11's column of descriptions
  Screen screen(Screen::standard_output());
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const bool example = line.starts_with("  ft ");
    const bool described = line.size() > kDescription && line[0] == ' ' && line[kDescription - 1] == ' ';
    screen.line(line, example ? Screen::kWhole : described ? int{kDescription} : 2);
  }
  return Exit::done;
}

namespace {

Exit show_settings(const std::string& section) {
  constexpr int kUsual = 100, kLeast = 40;  // columns
  const int terminal = Screen(Screen::standard_output()).width();
  std::cout << config_help(section,
                           static_cast<std::size_t>(terminal == 0 ? kUsual : std::max(terminal, kLeast)));
  return Exit::done;
}

// Returns the help of the command that these words name.
Exit show_command(const CLI::App& root, const Names& words) {
  const CLI::App* at = &root;
  std::string above;
  for (const std::string& word : words) {
    const Names known = names_below(*at);
    if (std::find(known.begin(), known.end(), word) == known.end()) {
      const std::string near = nearest(word, known);
      throw UserError(Exit::config, str("ft help: there is no command ", printable(word),
                                        near.empty() ? "; see ft --help" : "; do you mean " + near + "?"));
    }
    above += (above.empty() ? "" : " ") + at->get_name();
    at = at->get_subcommand(word);
  }
  return show_help(at->help(above));
}

struct HelpArgs {
  Names topic;
  bool schema = false, manual = false;
};

Exit help(const CLI::App& root, const HelpArgs& args) {
  if (args.schema && args.topic != Names{"config"})
    throw UserError(Exit::config, "ft help: --schema is for ft help config --schema");
  if (args.schema) return std::cout << config_schema(), Exit::done;
  if (args.manual) return std::cout << manual(root), Exit::done;
  if (args.topic.empty()) return show_help(root.help());
  if (args.topic[0] == "config") return show_settings(args.topic.size() > 1 ? args.topic[1] : "");
  return show_command(root, args.topic);
}

Use help_options(CLI::App& app) {
  const auto args = std::make_shared<HelpArgs>();
  app.add_option("topic", args->topic, "A command, or: config [section].")->type_name("TOPIC");
  auto* schema =
      app.add_flag("--schema", args->schema, "With config: the JSON Schema of a run's configuration.");
  app.add_flag("--man", args->manual, "The manual page, for man.")->excludes(schema);
  return {.run = [args, &app] { return help(*app.get_parent(), *args); }};
}

}  // namespace

const Command kHelp{"help", "Explain a command, or the settings of a run.",
                    "  ft help train\n"
                    "  ft help config          all settings\n"
                    "  ft help config lora     the settings of a section\n"
                    "  ft help config --schema > ft-config.schema.json      for editors\n"
                    "  ft help --man | man -l -                             this program's manual",
                    help_options};

}  // namespace ft::commands
