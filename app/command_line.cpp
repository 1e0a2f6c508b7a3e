#include "app/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <functional>
#include <iostream>
#include <new>

#include "app/commands.h"
#include "app/config.h"
#include "app/launch.h"
#include "app/ranks.h"
#include "app/tokenize.h"
#include "engine/core/suggest.h"

namespace ft {
namespace {

using Names = std::vector<std::string>;

const Names kLater{"generate", "sweep", "metrics", "chat"};
const Names kDtypes{"float32", "bfloat16", "float16"};

// The commands, their options, and what to run once they are parsed.
class CommandLine {
 public:
  CommandLine();
  Exit run(const Names& arguments);
  Names options() const;

 private:
  CLI::App* command(const std::string& name, const std::string& what, const std::string& examples,
                    CLI::App* under = nullptr);
  void about_a_run(CLI::App* app, ConfigArgs& args);
  void training();
  void several_ranks();
  Exit launch_command();
  void models();
  void data();
  void help();
  [[noreturn]] void refuse(const CLI::ParseError& error, const Names& arguments);

  CLI::App app_{"ft fine-tunes language models: LoRA and full, without Python."};
  std::function<Exit()> action_;
  TrainArgs train_;
  LaunchArgs launch_;
  EvalArgs eval_;
  PlanArgs plan_;
  ConfigArgs validate_;
  DataShowArgs data_show_;
  MergeArgs merge_;
  ExportArgs export_;
  InspectArgs inspect_;
  TokenizeOptions tokenize_;
  InitArgs init_;
  bool wants_version_ = false;
  VersionArgs version_;
  Names topic_;
};

CommandLine::CommandLine() {
  app_.name("ft");
  app_.set_help_flag("-h,--help", "This text.");
  app_.add_flag("--version", wants_version_,
                "Version, processor features and libraries; with --json as JSON.");
  app_.add_flag("--json", version_.json, "With --version.");
  app_.footer(
      "Examples:\n"
      "  ft init --config config.json --output tiny          a small random model to try things on\n"
      "  ft validate --config run.json                       is everything there?\n"
      "  ft plan --config run.json                           how much memory will it take?\n"
      "  ft train --config run.json training.max_steps=100   train; settings can be overridden\n"
      "  ft merge --model base --adapter out --output merged\n"
      "  ft help train, ft help config, ft help config lora  more about a command or about settings");
  training();
  several_ranks();
  models();
  data();
  help();
  app_.require_subcommand(0, 1);
}

CLI::App* CommandLine::command(const std::string& name, const std::string& what, const std::string& examples,
                               CLI::App* under) {
  CLI::App* sub = (under ? under : &app_)->add_subcommand(name, what);
  sub->set_help_flag("-h,--help", "This text.");
  sub->footer("Examples:\n" + examples);
  return sub;
}

void CommandLine::about_a_run(CLI::App* app, ConfigArgs& args) {
  app->add_option("--config", args.config, "The run's configuration (ft help config).")
      ->required()
      ->type_name("FILE");
  app->add_option("overrides", args.overrides, "Settings that hold instead of the file's.")
      ->type_name("a.b=c");
}

void CommandLine::training() {
  auto* train = command("train", "Fine-tune a model.",
                        "  ft train --config run.json\n"
                        "  ft train --config run.json training.learning_rate=1e-4 lora.r=32\n"
                        "  ft train --config run.json training.resume_from_checkpoint=auto");
  about_a_run(train, train_);
  train->add_flag("--overwrite", train_.overwrite, "Replace the run that the output folder holds.");
  train->add_option(
      "--trace", train_.trace,
      "Write what every operation of three steps after the first took to this file (ui.perfetto.dev opens "
      "it) and print a table.");
  train->callback([this] { action_ = [this] { return ft::train(train_); }; });

  auto* eval = command("eval", "Loss and perplexity on the configuration's evaluation data.",
                       "  ft eval --config run.json\n"
                       "  ft eval --config run.json --adapter outputs/run --json\n"
                       "  ft eval --config run.json --adapter outputs/run --answers 20");
  about_a_run(eval, eval_);
  eval->add_option("--adapter", eval_.adapter, "A PEFT adapter on top of the model.")->type_name("DIR");
  eval->add_option("--answers", eval_.answers,
                   "Also answer the first N samples, and count those to the letter.")
      ->type_name("N")
      ->check(CLI::PositiveNumber);
  eval->add_flag("--json", eval_.json, "One JSON object on stdout.");
  eval->callback([this] { action_ = [this] { return ft::eval(eval_); }; });

  auto* plan = command("plan", "Memory and arithmetic of a step, without touching the weights.",
                       "  ft plan --config run.json\n"
                       "  ft plan --config run.json data.max_seq_length=4096 --json\n"
                       "  ft plan --model models/llama-2-7b training.gradient_checkpointing=false");
  plan->add_option("--config", plan_.config, "The run's configuration.")->type_name("FILE");
  plan->add_option("--model", plan_.model, "Instead: a model's folder or config.json, default settings.")
      ->type_name("DIR");
  plan->add_option("overrides", plan_.overrides, "Settings that hold instead of the file's.")
      ->type_name("a.b=c");
  plan->add_flag("--json", plan_.json, "One JSON object on stdout.");
  plan->callback([this] {
    if (plan_.config.empty() == plan_.model.empty())
      throw UserError(Exit::config, "ft plan: give either --config FILE or --model DIR");
    action_ = [this] { return ft::plan(plan_); };
  });

  auto* validate = command("validate", "Check a configuration and the files it names; exit 0 or 2.",
                           "  ft validate --config run.json\n"
                           "  ft validate --config run.json lora.target_modules=all-linear");
  about_a_run(validate, validate_);
  validate->callback([this] { action_ = [this] { return ft::validate(validate_); }; });
}

void CommandLine::several_ranks() {
  auto* launch = command("launch", "Train with several processes of this machine.",
                         "  ft launch -n 4 train --config run.json zero_stage=2\n"
                         "  ft launch train --config run.json distributed.nproc_per_node=4");
  launch
      ->add_option("-n,--nproc_per_node", launch_.ranks,
                   "How many ranks; distributed.nproc_per_node if not given.")
      ->type_name("N")
      ->check(CLI::Range(1, 1024));
  launch
      ->add_option("--log-dir", launch_.log_dir,
                   "Where rank-0.log, rank-1.log, ... go; OUTPUT_DIR/ranks if not given.")
      ->type_name("DIR");
  launch->prefix_command();
  launch->callback([this, launch] {
    launch_.command = launch->remaining();
    action_ = [this] { return launch_command(); };
  });
}

// The command of the ranks is checked here, so that a mistake in it is said once and not by every rank.
Exit CommandLine::launch_command() {
  const Names& words = launch_.command;
  if (words.empty()) throw UserError(Exit::config, "ft launch: give a command: ft launch -n 2 train ...");
  if (words[0][0] == '-')
    throw UserError(Exit::config,
                    str("ft launch: ", printable(words[0]), " is not available; see ft launch --help"));
  if (words[0] != "train")
    throw UserError(Exit::config,
                    str("ft launch ", printable(words[0]), " is not available yet; available: train"));
  CommandLine ranks;
  try {
    ranks.app_.parse(Names(words.rbegin(), words.rend()));
  } catch (const CLI::CallForHelp&) {
    return ranks.run(words);
  } catch (const CLI::ParseError& error) {
    ranks.refuse(error, words);
  }
  const RunConfig config = load_config(ranks.train_.config, ranks.train_.overrides);
  return launch(launch_, config.training.output_dir, configured_ranks(config.distributed));
}

void CommandLine::models() {
  auto* merge =
      command("merge", "Fold an adapter into its model: a Hugging Face folder.",
              "  ft merge --model models/base --adapter outputs/run --output merged\n"
              "  ft merge --model models/base --adapter outputs/run --output merged --dtype bfloat16");
  merge->add_option("--model", merge_.model, "The base model's folder.")->required()->type_name("DIR");
  merge->add_option("--adapter", merge_.adapter, "The PEFT adapter's folder.")->required()->type_name("DIR");
  merge->add_option("--output", merge_.output, "The folder to make.")->required()->type_name("DIR");
  merge->add_option("--dtype", merge_.dtype, "Type of the weights; the model's if not given.")
      ->check(CLI::IsMember(kDtypes));
  merge->add_flag("--overwrite", merge_.overwrite, "Replace what the folder holds.");
  merge->callback([this] { action_ = [this] { return ft::merge(merge_); }; });

  auto* to = command("export", "A run or a checkpoint as a folder for other programs.",
                     "  ft export --to peft --from outputs/run/checkpoint-500 --output adapter\n"
                     "  ft export --to hf --from outputs/run --output model");
  to->add_option("--to", export_.to, "peft: an adapter. hf: a whole model, adapters merged.")
      ->required()
      ->check([](const std::string& value) -> std::string {
        if (value == "peft" || value == "hf") return "";
        return value == "gguf" ? "gguf is not available yet; available: peft, hf"
                               : value + " is neither peft nor hf";
      })
      ->type_name("FORMAT");
  to->add_option("--from", export_.from, "A run's folder or a checkpoint.")->required()->type_name("DIR");
  to->add_option("--output", export_.output, "The folder to make.")->required()->type_name("DIR");
  to->add_option("--dtype", export_.dtype, "Type of the weights; as trained if not given.")
      ->check(CLI::IsMember(kDtypes));
  to->add_flag("--overwrite", export_.overwrite, "Replace what the folder holds.");
  to->callback([this] { action_ = [this] { return export_model(export_); }; });

  auto* inspect = command("inspect", "What a safetensors file, a model, an adapter or a run holds.",
                          "  ft inspect model.safetensors\n"
                          "  ft inspect outputs/run --json");
  inspect->add_option("path", inspect_.path, "A file or a folder.")->required()->type_name("PATH");
  inspect->add_flag("--json", inspect_.json, "One JSON object on stdout.");
  inspect->callback([this] { action_ = [this] { return ft::inspect(inspect_); }; });

  auto* init = command("init", "A model with random weights from a config.json, as transformers makes it.",
                       "  ft init --config config.json --output tiny\n"
                       "  ft init --config config.json --output tiny --seed 1 --dtype bfloat16");
  init->add_option("--config", init_.config, "The model's config.json, or a folder with one.")
      ->required()
      ->type_name("FILE");
  init->add_option("--output", init_.output, "The folder to make.")->required()->type_name("DIR");
  init->add_option("--seed", init_.seed, "Of the weights.")->capture_default_str();
  init->add_option("--dtype", init_.dtype, "Type of the weights; config.json's if not given, else float32.")
      ->check(CLI::IsMember(kDtypes));
  init->callback([this] { action_ = [this] { return ft::init(init_); }; });
}

void CommandLine::data() {
  auto* tokenize = command("tokenize", "Texts to token ids and back: JSON lines on stdin and stdout.",
                           "  echo '\"Hello\"' | ft tokenize --model models/base\n"
                           "  echo '[1, 15043]' | ft tokenize --model models/base --decode");
  tokenize->add_option("--model", tokenize_.model, "A folder with a tokenizer.")
      ->required()
      ->type_name("DIR");
  tokenize->add_flag("--no-special-tokens", tokenize_.no_special_tokens, "No BOS or EOS added.");
  auto* decode = tokenize->add_flag("--decode", tokenize_.decode, "From ids to texts.");
  tokenize
      ->add_flag("--skip-special-tokens", tokenize_.skip_special_tokens, "With --decode: leave BOS, EOS out.")
      ->needs(decode);
  tokenize->callback([this] { action_ = [this] { return tokenize_command(tokenize_), Exit::done; }; });

  auto* data = app_.add_subcommand("data", "Look at training data.");
  data->set_help_flag("-h,--help", "This text.");
  data->require_subcommand(1);
  auto* show = command("show", "The samples of a run as the model will see them.",
                       "  ft data show --config run.json --limit 3\n"
                       "  ft data show --config run.json --json | head",
                       data);
  about_a_run(show, data_show_);
  show->add_flag("--json", data_show_.json, "One JSON object a line: input_ids, labels, source.");
  show->add_option("--limit", data_show_.limit, "At most so many samples.")->check(CLI::NonNegativeNumber);
  show->callback([this] { action_ = [this] { return ft::data_show(data_show_); }; });
}

void CommandLine::help() {
  auto* help = command("help", "About a command, or about the settings of a run.",
                       "  ft help train\n"
                       "  ft help config          all settings\n"
                       "  ft help config lora     those of a section");
  help->add_option("topic", topic_, "A command, or: config [section].")->type_name("TOPIC");
  help->callback([this] {
    action_ = [this] {
      if (topic_.empty()) return std::cout << app_.help(), Exit::done;
      if (topic_[0] == "config") return help_config(topic_.size() > 1 ? topic_[1] : "");
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
      std::cout << at->help(name);
      return Exit::done;
    };
  });
}

// Every command with its options, in the order they were defined.
Names CommandLine::options() const {
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
  if (arguments.empty()) return std::cout << app_.help(), Exit::done;
  if (const std::string& word = arguments[0]; word[0] != '-') {
    Names known;
    for (const CLI::App* sub : app_.get_subcommands({})) known.push_back(sub->get_name());
    if (std::find(kLater.begin(), kLater.end(), word) != kLater.end())
      throw UserError(Exit::config, str("ft ", word, " is not available yet"));
    if (std::find(known.begin(), known.end(), word) == known.end()) {
      const std::string near = nearest(word, known);
      throw UserError(Exit::config, str("there is no command ", printable(word),
                                        near.empty() ? "; see ft --help" : "; do you mean ft " + near + "?"));
    }
  }
  try {
    app_.parse(Names(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::CallForHelp&) {
    const CLI::App* at = &app_;
    std::string name;  // of what is above
    for (; !at->get_subcommands().empty(); at = at->get_subcommands()[0])
      name += (name.empty() ? "" : " ") + at->get_name();
    std::cout << at->help(name);
    return Exit::done;
  } catch (const CLI::ParseError& error) {
    refuse(error, arguments);
  }
  if (wants_version_) return version(version_);
  if (!action_) throw UserError(Exit::config, "ft: give a command; see ft --help");
  return action_();
}

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
    return tell(Exit::memory, "there is not enough memory");
  } catch (const std::filesystem::filesystem_error& e) {
    return tell(Exit::storage, str(e.path1().string(), ": ", e.code().message()));
  } catch (const std::exception& e) {
    return tell(kOurs, str("ft made a mistake: ", e.what(),
                           "\nplease report it with the command and the configuration"));
  }
}

std::vector<std::string> all_options() { return CommandLine().options(); }

}  // namespace ft
