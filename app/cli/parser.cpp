#include "app/cli/parser.h"

#include <algorithm>
#include <iostream>

#include "app/cli/completions.h"
#include "app/cli/help.h"
#include "app/cli/tree.h"
#include "app/cli/typography.h"
#include "app/commands/list.h"
#include "app/launch/frames.h"
#include "app/node/node.h"
#include "engine/core/suggest.h"
#include "engine/cuda/cuda_ops.h"
#include "engine/files/file.h"

namespace ft::commands {
namespace {

// Expands "~" in every option that takes a path: a shell leaves it in --output=~/run.
void expand_home(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) {
    const std::string type = option->get_type_name();
    for (const char* path : {"DIR", "FILE", "PATH", "RUN"})
      if (type.ends_with(path)) option->transform([](std::string text) { return home_expanded(text); });
  }
  for (CLI::App* sub : app.get_subcommands({})) expand_home(*sub);
}

}  // namespace

Parser::Parser() {
  app_.name("ft");
  app_.set_help_flag("-h,--help", "Show this help.");
  app_.add_flag("--version", wants_version_,
                "Show version, CPU features and libraries; add --json for JSON.");
  app_.add_flag("--json", version_.json, "With --version: print JSON.");
  app_.add_option("--cuda-libs", cuda_libs_,
                  "Give it before the command: the folder of NVIDIA's libraries, if they are not in the "
                  "system. A parent folder, such as a Python environment, works too.")
      ->type_name("DIR");
  app_.footer(
      "Examples:\n"
      "  ft train --model Qwen/Qwen3-0.6B --data chats.jsonl  train with chosen settings, from one line\n"
      "  ft init --config config.json --output tiny          a small random model to try things on\n"
      "  ft validate --config run.json                       is everything there?\n"
      "  ft plan --config run.json                           how much memory will it take?\n"
      "  ft train --config run.json training.max_steps=100   train; settings can be overridden\n"
      "  ft chat --model base --adapter out                  chat with the trained model\n"
      "  ft merge --model base --adapter out --output merged\n"
      "  ft help train, ft help config, ft help config lora  more about a command or about settings");
  for (const Command* command : kCommands) add(*command, app_);
  expand_home(app_);
  app_.require_subcommand(0, 1);
}

void Parser::add(const Command& command, CLI::App& above) {
  CLI::App* app = above.add_subcommand(command.name, command.help);
  app->set_help_flag("-h,--help", "Show this help.");
  if (*command.examples) app->footer(std::string("Examples:\n") + command.examples);
  if (command.add_options) uses_[app] = command.add_options(*app);
  if (!command.below.empty()) app->require_subcommand(1);
  for (const Command* below : command.below) add(*below, *app);
}

// Throws UserError (config) with ft's message for CLI11's error.
void Parser::refuse(const CLI::ParseError& error, const Names& arguments) const {
  const CLI::App* at = &app_;
  std::string name = "ft";
  while (!at->get_subcommands().empty()) name += " " + (at = at->get_subcommands()[0])->get_name();
  Names options;
  for (const CLI::Option* option : at->get_options()) options.push_back(option->get_name());
  const auto with = [](const std::string& near) {
    return near.empty() ? "; see " : "; do you mean " + near + "? See ";
  };

  const auto kind = static_cast<CLI::ExitCodes>(error.get_exit_code());
  if (kind == CLI::ExitCodes::ExtrasError || kind == CLI::ExitCodes::RequiredError) {
    for (const std::string& word : arguments) {
      const std::string option = word.substr(0, word.find('='));
      if (word.size() > 1 && word[0] == '-' &&
          std::find(options.begin(), options.end(), option) == options.end())
        throw UserError(Exit::config, str(name, ": there is no option ", printable(word),
                                          with(nearest(option, options)), name, " --help"));
    }
  }
  std::string what = error.what();
  if (kind == CLI::ExitCodes::RequiredError) what += "; see " + name + " --help";
  throw UserError(Exit::config, str(name, ": ", printable(what, 400)));
}

const Use* Parser::named() const {
  const CLI::App* at = &app_;
  while (!at->get_subcommands().empty()) at = at->get_subcommands()[0];
  const auto found = uses_.find(at);
  return found == uses_.end() ? nullptr : &found->second;
}

// Removes the words after "--", which CLI11 would read as values, and passes them to a command that takes
// them.
Names Parser::without_rest(Names words) const {
  const auto dashes = std::find(words.begin(), words.end(), "--");
  if (dashes == words.end()) return words;
  for (const auto& [app, use] : uses_)
    if (use.rest && app->get_name() == words[0]) {
      use.rest(Names(dashes + 1, words.end()));
      words.erase(dashes, words.end());
      break;
    }
  return words;
}

Exit Parser::parse(const Names& words, const std::function<Exit(const Use*)>& act) {
  const Names parsed = without_rest(words);
  try {
    app_.parse(Names(parsed.rbegin(), parsed.rend()));
  } catch (const CLI::CallForHelp&) {
    const CLI::App* at = &app_;
    std::string above;
    for (; !at->get_subcommands().empty(); at = at->get_subcommands()[0])
      above += (above.empty() ? "" : " ") + at->get_name();
    return show_help(at->help(above));
  } catch (const CLI::ParseError& error) {
    refuse(error, words);
  }
  return act(named());
}

Exit Parser::launch(const LaunchArgs& launched, const Names& words) {
  return parse(words, [&](const Use* use) {
    require(use && use->launch, "a command that ranks run");
    return use->launch(launched);
  });
}

Exit Parser::run(const Names& arguments) {
  if (arguments.empty()) return show_help(app_.help());
  if (arguments == Names{kNodeCommand}) return run_node();
  if (arguments[0] == kCompleteCommand) {
    for (const std::string& word : completions(app_, {arguments.begin() + 1, arguments.end()}))
      std::cout << word << "\n";
    return Exit::done;
  }
  refuse_typography(arguments);
  if (const std::string& word = arguments[0]; word[0] != '-') {
    const Names known = names_below(app_);
    if (std::find(known.begin(), known.end(), word) == known.end()) {
      const std::string near = nearest(word, known);
      throw UserError(Exit::config, str("there is no command ", printable(word),
                                        near.empty() ? "; see ft --help" : "; do you mean ft " + near + "?"));
    }
  }
  return parse(arguments, [&](const Use* use) {
    if (wants_version_) return version(version_);
    if (!cuda_libs_.empty()) use_cuda_libraries(cuda_libs_);
    if (!use) throw UserError(Exit::config, "ft: give a command; see ft --help");
    return use->run();
  });
}

}  // namespace ft::commands
