#include "app/commands/command_line.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <functional>
#include <iostream>
#include <new>
#include <sstream>

#include "app/commands/command_parser.h"
#include "app/commands/completion_scripts.h"
#include "app/commands/typography.h"
#include "app/config/help_config.h"
#include "app/config/schema.h"
#include "app/launch/frames.h"
#include "app/node/node.h"
#include "app/screen/screen.h"
#include "engine/core/suggest.h"
#include "engine/cuda/cuda_ops.h"
#include "engine/files/file.h"

namespace ft {
namespace {

// What CLI11 says about a command, on a terminal in lines that fit. Examples are left whole, to be copied.
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

Exit show_settings(const std::string& section) {
  constexpr int kUsual = 100, kLeast = 40;  // columns
  const int terminal = Screen(Screen::standard_output()).width();
  std::cout << config_help(section,
                           static_cast<std::size_t>(terminal == 0 ? kUsual : std::max(terminal, kLeast)));
  return Exit::done;
}

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

CommandLine::CommandLine() {
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
      "  ft init --config config.json --output tiny          a small random model to try things on\n"
      "  ft validate --config run.json                       is everything there?\n"
      "  ft plan --config run.json                           how much memory will it take?\n"
      "  ft train --config run.json training.max_steps=100   train; settings can be overridden\n"
      "  ft chat --model base --adapter out                  talk to the trained model\n"
      "  ft merge --model base --adapter out --output merged\n"
      "  ft help train, ft help config, ft help config lora  more about a command or about settings");
  training();
  tuning();
  several_ranks();
  translation();
  readiness();
  verification();
  models();
  answers();
  serving();
  data();
  completion();
  help();
  expand_home(app_);
  app_.require_subcommand(0, 1);
}

CLI::App* CommandLine::command(const std::string& name, const std::string& what, const std::string& examples,
                               CLI::App* under) {
  CLI::App* sub = (under ? under : &app_)->add_subcommand(name, what);
  sub->set_help_flag("-h,--help", "Show this help.");
  sub->footer("Examples:\n" + examples);
  return sub;
}

void CommandLine::about_a_run(CLI::App* app, ConfigArgs& args) {
  app->add_option("--config", args.config, "The run's configuration (ft help config).")
      ->required()
      ->type_name("FILE");
  app->add_option("overrides", args.overrides, "Settings that override the file.")->type_name("a.b=c");
  about_deepspeed(app, args);
}

void CommandLine::about_deepspeed(CLI::App* app, ConfigArgs& args) {
  app->add_option("--deepspeed", args.deepspeed,
                  "DeepSpeed's JSON: its settings join the configuration's (docs/deepspeed.md).")
      ->type_name("FILE");
}

void CommandLine::help() {
  auto* help = command("help", "Explain a command, or the settings of a run.",
                       "  ft help train\n"
                       "  ft help config          all settings\n"
                       "  ft help config lora     those of a section\n"
                       "  ft help config --schema > ft-config.schema.json      for editors\n"
                       "  ft help --man | man -l -                             this program's manual");
  help->add_option("topic", topic_, "A command, or: config [section].")->type_name("TOPIC");
  auto* schema =
      help->add_flag("--schema", wants_schema_, "With config: the JSON Schema of a run's configuration.");
  help->add_flag("--man", wants_manual_, "The manual page, for man.")->excludes(schema);
  help->callback([this] {
    action_ = [this] {
      if (wants_schema_ && topic_ != Names{"config"})
        throw UserError(Exit::config, "ft help: --schema is for ft help config --schema");
      if (wants_schema_) return std::cout << config_schema(), Exit::done;
      if (wants_manual_) return std::cout << manual(), Exit::done;
      if (topic_.empty()) return show_help(app_.help());
      if (topic_[0] == "config") return show_settings(topic_.size() > 1 ? topic_[1] : "");
      const CLI::App* at = &app_;
      std::string name;  // of what is above
      for (const std::string& word : topic_) {
        Names known;
        for (const CLI::App* sub : at->get_subcommands({})) known.push_back(sub->get_name());
        if (std::find(known.begin(), known.end(), word) == known.end()) {
          const std::string near = nearest(word, known);
          throw UserError(Exit::config,
                          str("ft help: there is no command ", printable(word),
                              near.empty() ? "; see ft --help" : "; do you mean " + near + "?"));
        }
        name += (name.empty() ? "" : " ") + at->get_name();
        at = at->get_subcommand(word);
      }
      return show_help(at->help(name));
    };
  });
}

void CommandLine::completion() {
  auto* completion = command("completion", "A script that completes ft's command line in a shell.",
                             "  source <(ft completion bash)\n"
                             "  ft completion zsh > ~/.zfunc/_ft\n"
                             "  ft completion fish | source");
  completion->add_option("shell", shell_, "The shell.")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  completion->callback(
      [this] { action_ = [this] { return std::cout << completion_script(shell_), Exit::done; }; });
}

// Every command with its options, in the order they were defined.
CommandLine::Names CommandLine::options() const {
  Names all;
  const std::function<void(const CLI::App&, const std::string&)> walk = [&](const CLI::App& app,
                                                                            const std::string& path) {
    for (const CLI::Option* option : app.get_options())
      if (const std::string name = option->get_name(); name != "--help") all.push_back(path + name);
    for (const CLI::App* sub : app.get_subcommands({})) walk(*sub, path + sub->get_name() + " ");
  };
  walk(app_, "");
  return all;
}

// What CLI11 has against the command line, in our words.
void CommandLine::refuse(const CLI::ParseError& error, const Names& arguments) {
  const CLI::App* at = &app_;
  std::string name = "ft";
  while (!at->get_subcommands().empty()) name += " " + (at = at->get_subcommands()[0])->get_name();
  Names commands, options;
  for (const CLI::App* sub : at->get_subcommands({})) commands.push_back(sub->get_name());
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

Exit CommandLine::run(const Names& arguments) {
  if (arguments.empty()) return show_help(app_.help());
  if (arguments == Names{kNodeCommand}) return run_node();
  if (arguments[0] == kCompleteCommand) {
    for (const std::string& word : completions({arguments.begin() + 1, arguments.end()}))
      std::cout << word << "\n";
    return Exit::done;
  }
  refuse_typography(arguments);
  if (const std::string& word = arguments[0]; word[0] != '-') {
    Names known;
    for (const CLI::App* sub : app_.get_subcommands({})) known.push_back(sub->get_name());
    if (std::find(known.begin(), known.end(), word) == known.end()) {
      const std::string near = nearest(word, known);
      throw UserError(Exit::config, str("there is no command ", printable(word),
                                        near.empty() ? "; see ft --help" : "; do you mean ft " + near + "?"));
    }
  }
  Names own = arguments;
  if (const auto dashes = std::find(own.begin(), own.end(), "--");
      own[0] == "translate-args" && dashes != own.end()) {  // CLI11 would read what follows as values
    translate_.command.assign(dashes + 1, own.end());
    own.erase(dashes, own.end());
  }
  try {
    app_.parse(Names(own.rbegin(), own.rend()));
  } catch (const CLI::CallForHelp&) {
    const CLI::App* at = &app_;
    std::string name;  // of what is above
    for (; !at->get_subcommands().empty(); at = at->get_subcommands()[0])
      name += (name.empty() ? "" : " ") + at->get_name();
    return show_help(at->help(name));
  } catch (const CLI::ParseError& error) {
    refuse(error, arguments);
  }
  if (wants_version_) return version(version_);
  if (!cuda_libs_.empty()) use_cuda_libraries(cuda_libs_);
  if (!action_) throw UserError(Exit::config, "ft: give a command; see ft --help");
  return action_();
}

namespace {

// Line by line, control characters made harmless.
int tell(Exit code, const std::string& what) {
  std::string text;
  for (std::size_t begin = 0, end = 0; end != std::string::npos; begin = end + 1) {
    end = what.find('\n', begin);
    text += printable(what.substr(begin, end == std::string::npos ? end : end - begin), 2000) + "\n";
  }
  std::cout.flush();
  std::cerr << text;
  return static_cast<int>(code);
}

}  // namespace

int run_command_line(const std::vector<std::string>& arguments) {
  constexpr Exit kOurs{1};  // no code of its own: nothing a script could act on
  try {
    const Exit code = CommandLine().run(arguments);
    if (!std::cout.flush()) return tell(Exit::storage, std::string("stdout: ") + std::strerror(errno));
    return static_cast<int>(code);
  } catch (const UserError& e) {
    return tell(e.code, e.what());
  } catch (const std::bad_alloc&) {
    return tell(Exit::memory, "not enough memory");
  } catch (const std::filesystem::filesystem_error& e) {
    return tell(Exit::storage, str(e.path1().string(), ": ", e.code().message()));
  } catch (const std::exception& e) {
    return tell(kOurs, str("internal error: ", e.what(),
                           "\nthis is a bug in ft; please report it with the command and the configuration"));
  }
}

std::vector<std::string> all_options() { return CommandLine().options(); }

}  // namespace ft
