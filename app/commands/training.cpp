// Commands about a run: train, eval, plan, profile, sweep, validate, tune, launch, verify.
#include <algorithm>

#include "app/commands/command_parser.h"
#include "app/config/config.h"
#include "app/launch/launcher_flags.h"
#include "app/train/validate.h"
#include "engine/core/suggest.h"

namespace ft {
namespace {

// Those that have no effect or are refused, in a group of their own.
void add_launcher_flags(CLI::App& launch, std::vector<std::string>& typed) {
  for (const LauncherFlag& flag : launcher_flags()) {
    const std::string names = flag.names, name = names.substr(names.find("--"));
    const std::string help = (flag.refused ? "Refused: " : "No effect: ") + std::string(flag.why) + ".";
    const auto note = [&typed, name] { typed.push_back(name); };
    CLI::Option* option = *flag.type ? launch
                                           .add_option_function<std::string>(
                                               names, [note](const std::string&) { note(); }, help)
                                           ->type_name(flag.type)
                                     : launch.add_flag_callback(names, note, help);
    option->group("What else DeepSpeed's launcher takes");
  }
}

}  // namespace

void CommandLine::training() {
  auto* train = command("train", "Fine-tune a model.",
                        "  ft train --config run.json\n"
                        "  ft train --config run.json training.learning_rate=1e-4 lora.r=32\n"
                        "  ft train --config run.json training.resume_from_checkpoint=auto\n"
                        "  ft train --config run.json --deepspeed ds.json");
  about_a_run(train, train_);
  train->add_flag("--overwrite", train_.overwrite, "Replace the run in the output folder.");
  train
      ->add_option("--trace", train_.trace,
                   "Write a timeline of every operation in three steps after the first to this file (for "
                   "ui.perfetto.dev) and print a table.")
      ->type_name("FILE");
  train->callback([this] { action_ = [this] { return ft::train(train_); }; });

  auto* eval = command("eval", "Measure loss and perplexity on the configuration's evaluation data.",
                       "  ft eval --config run.json\n"
                       "  ft eval --config run.json --adapter outputs/run --json\n"
                       "  ft eval --config run.json --adapter outputs/run --answers 20");
  about_a_run(eval, eval_);
  eval->add_option("--adapter", eval_.adapter, "PEFT adapter to apply to the model.")->type_name("DIR");
  eval->add_option("--answers", eval_.answers, "Also answer the first N samples and count exact matches.")
      ->type_name("N")
      ->check(CLI::PositiveNumber);
  eval->add_flag("--json", eval_.json, "One JSON object on stdout.");
  eval->callback([this] { action_ = [this] { return ft::eval(eval_); }; });

  auto* teach =
      command("teach", "Ask a teacher about a run's data, once, for objective.type=distill.",
              "  ft teach --config run.json --model models/large objective.teacher_file=teacher.safetensors\n"
              "  ft teach --config run.json --model models/large --load-in-4bit --top-k 32");
  about_a_run(teach, teach_);
  teach->add_option("--model", teach_.model, "The teacher: a model folder, or an id in the hub's cache.")
      ->required()
      ->type_name("DIR");
  teach->add_option("--top-k", teach_.top_k, "How many of the likeliest tokens to keep at each target.")
      ->type_name("K")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  teach->add_flag("--load-in-4bit", teach_.load_in_4bit, "Hold the teacher's weights in 4 bits.");
  teach->add_flag("--overwrite", teach_.overwrite, "Replace objective.teacher_file if it exists.");
  teach->callback([this] { action_ = [this] { return ft::teach(teach_); }; });

  planning();

  auto* profile =
      command("profile", "Show what each module of a step costs: parameters, FLOPs, time, memory.",
              "  ft profile --config run.json\n"
              "  ft profile --config run.json logging.flops_profiler.module_depth=3 --json\n"
              "  ft launch -n 2 profile --config run.json zero_stage=3");
  about_a_run(profile, profile_);
  profile->add_flag("--json", profile_.json, "One JSON object on stdout.");
  profile->callback([this] { action_ = [this] { return ft::profile(profile_); }; });

  sweeping();
}

void CommandLine::planning() {
  auto* plan = command("plan", "Show memory and FLOPs of a step, without reading weights.",
                       "  ft plan --config run.json\n"
                       "  ft plan --config run.json data.max_seq_length=4096 --json\n"
                       "  ft plan --model models/llama-2-7b training.gradient_checkpointing=false\n"
                       "  ft plan --config run.json --ranks 8 --gpu 24GiB\n"
                       "  ft plan --parameters 7.5e9 --ranks 64     by ZeRO's formulas");
  plan->add_option("--config", plan_.config, "The run's configuration.")->type_name("FILE");
  plan->add_option("--model", plan_.model,
                   "Instead of --config: a model folder or config.json, with default settings.")
      ->type_name("DIR");
  plan->add_option("overrides", plan_.overrides, "Settings that override the file.")->type_name("a.b=c");
  about_deepspeed(plan, plan_);
  plan->add_flag("--json", plan_.json, "One JSON object on stdout.");
  auto* parameters =
      plan->add_option("--parameters", plan_.parameters,
                       "Instead of --config: memory for X trained parameters by ZeRO's formulas.");
  parameters->type_name("X")->check(CLI::PositiveNumber);
  plan->add_option("--ranks", plan_.ranks, "Plan for N ranks, under each ZeRO stage.")
      ->type_name("N")
      ->check(CLI::Range(1, 1024));
  plan->add_option("--gpu", plan_.gpu,
                   "Plan for this GPU: h200, rtx4090, ..., or a memory size such as 24GiB. This machine need "
                   "not have it.")
      ->type_name("GPU")
      ->excludes(parameters);
  plan->add_option("--disk", plan_.speeds.disk,
                   "How fast files are that hold parameters or states, in place of measuring: 2GB/s.")
      ->type_name("SPEED");
  plan->add_option("--pcie", plan_.speeds.pcie,
                   "How fast copies between a GPU and the host's memory are, each way: 50GB/s.")
      ->type_name("SPEED");
  plan->add_option("--flops", plan_.speeds.flops,
                   "How fast a rank computes, in place of measuring: 1.5TFLOPS.")
      ->type_name("SPEED");
  plan->callback([this] {
    if (int{plan_.config.empty()} + int{plan_.model.empty()} + int{plan_.parameters == 0} != 2)
      throw UserError(Exit::config, "ft plan: give one of --config FILE, --model DIR and --parameters X");
    if (plan_.parameters > 0) {
      action_ = [this] { return ft::plan_by_formula(plan_); };
      return;
    }
    action_ = [this] { return ft::plan(plan_); };
  });
}

void CommandLine::sweeping() {
  auto* sweep =
      command("sweep", "Train with every combination of the settings in sweep.grid, one run after another.",
              "  ft sweep --config run.json 'sweep.grid={\"zero_stage\": [0, 3], \"data.max_seq_length\": "
              "[512, 1024]}'\n"
              "  ft sweep --config run.json --dry-run      only plan the memory of each\n"
              "  ft sweep --config run.json --longest      the longest max_seq_length that fits\n"
              "  ft sweep --config run.json --find learning_rate      at the cost of one and a half runs");
  about_a_run(sweep, sweep_);
  sweep->add_flag("--dry-run", sweep_.dry_run, "Plan each run; train none.");
  sweep->add_flag("--longest", sweep_.longest,
                  "Find the longest data.max_seq_length that fits with each combination of the other "
                  "settings; train none.");
  sweep
      ->add_option("--find", sweep_.find,
                   "Instead of the grid: find the best value of this setting by successive halving.")
      ->check(CLI::IsMember({"learning_rate"}))
      ->type_name("SETTING");
  sweep->callback([this] { action_ = [this] { return ft::sweep(sweep_); }; });

  auto* report = command("report", "One page about a run, or several beside one another, that opens offline.",
                         "  ft report outputs/a\n"
                         "  ft report outputs/a outputs/b --output compared.html");
  report->add_option("runs", report_.runs, "Folders of runs.")->required()->type_name("RUN");
  report->add_option("--output", report_.output, "The page to write.")
      ->type_name("FILE")
      ->capture_default_str();
  report->add_flag("--overwrite", report_.overwrite, "Replace the page if it exists.");
  report->callback([this] { action_ = [this] { return ft::report(report_); }; });

  auto* validate =
      command("validate", "Check a configuration and the files it names; exit 0 or 2.",
              "  ft validate --config run.json\n"
              "  ft validate --config run.json lora.target_modules=all-linear\n"
              "  ft validate --config run.json --deepspeed ds.json     what becomes of each key");
  about_a_run(validate, validate_);
  validate->add_flag("--json", validate_.json,
                     "What becomes of each key of DeepSpeed's file, as one JSON object on stdout.");
  validate->callback([this] { action_ = [this] { return ft::validate(validate_); }; });
}

void CommandLine::tuning() {
  auto* tune = command("tune",
                       "Find the settings with which a run is fastest, by planning all and trying a few. The "
                       "sequences of a step, and so what is learned, stay the same.",
                       "  ft tune --config run.json\n"
                       "  ft tune --config run.json --metric memory\n"
                       "  ft tune --config run.json zero_stage=2        what is given here is not varied\n"
                       "  ft tune --config run.json 'tune.space={\"training.bf16\": [true, false]}'");
  about_a_run(tune, tune_);
  tune->add_option_function<std::string>(
          "--metric", [this](const std::string& word) { tune_.metric = *value_of<TuneMetric>(word); },
          "What is best: the most tokens per second (throughput), the shortest step (latency), or the least "
          "memory, and of the settings that need it the fastest (memory).")
      ->check(CLI::IsMember({"throughput", "latency", "memory"}))
      ->default_str("throughput");
  tune->add_option_function<std::string>(
          "--trials",
          [this](const std::string& word) {
            tune_.all = word == "all";
            if (!tune_.all) tune_.trials = std::stoll(word);
          },
          "Try at most N settings, or all that fit (default: a tenth of them, 6 to 50).")
      ->type_name("N|all")
      ->check(CLI::IsMember({"all"}) | CLI::Range(1, 1'000'000));
  tune->add_flag("--json", tune_.json, "One JSON object on stdout.");
  tune->callback([this] { action_ = [this] { return ft::tune(tune_); }; });
}

void CommandLine::several_ranks() {
  auto* launch = command(
      "launch", "Train, evaluate or generate with several processes, on one machine or more.",
      "  ft launch -n 4 train --config run.json zero_stage=2\n"
      "  ft launch --hostfile hosts train --config run.json      over ssh, one HOST slots=N per line\n"
      "  ft launch --hostfile hosts --include node1@node2:0,1 train --config run.json\n"
      "  ft launch --include localhost:2,3 train --config run.json   these GPUs of this machine\n"
      "  ft doctor --hostfile hosts                              are they ready?");
  const auto number = [&](const char* name, int& to, const char* what, int low, int high) {
    launch->add_option(name, to, what)->type_name("N")->check(CLI::Range(low, high));
  };
  const auto text = [&](const char* name, std::string& to, const char* what, const char* type) {
    launch->add_option(name, to, what)->type_name(type);
  };
  number("-n,--nproc_per_node,--num_gpus,--num_accelerators", launch_.ranks,
         "Ranks per machine (default: the hostfile's slots, distributed.nproc_per_node, or all GPUs).", 1,
         1024);
  number("--num_nodes", launch_.nodes, "Number of machines (default: all in the hostfile).", 1, 4096);
  text("-H,--hostfile", launch_.hostfile,
       "File with the machines, as for DeepSpeed and OpenMPI: HOST slots=N.", "FILE");
  text("-i,--include", launch_.include,
       "Use only HOST[:SLOT,...][@HOST...] of the hostfile, or localhost:SLOT,... without one. A slot is a "
       "rank, "
       "and the GPU that it takes.",
       "HOSTS");
  text("-e,--exclude", launch_.exclude, "Use all of the hostfile, or of this machine's GPUs, but these.",
       "HOSTS");
  text("--master_addr", launch_.master_addr,
       "Address where rank 0 listens (default: the first machine's name, or loopback on one machine).",
       "ADDRESS");
  number("--master_port", launch_.master_port, "Port where rank 0 listens (default: any free one).", 0,
         65535);
  number("--node_rank", launch_.node_rank,
         "Without ssh: the number of this machine, from 0; start ft launch on each of --num_nodes.", 0, 4095);
  launch->add_flag("--no_ssh", launch_.no_ssh,
                   "With --hostfile and --node_rank: ft launch is started on each of its machines.");
  number("--ssh_port", launch_.ssh_port, "Port of ssh, if not the usual one.", 1, 65535);
  text("--launcher", launch_.launcher,
       "pdsh, DeepSpeed's usual one, means ssh here; of several machines by any other it says what to type.",
       "NAME");
  text("--log-dir,--enable_each_rank_log", launch_.log_dir,
       "Folder for rank-0.log, rank-1.log, ... (default: OUTPUT_DIR/ranks).", "DIR");
  add_launcher_flags(*launch, launch_.others);
  launch->prefix_command();
  launch->callback([this, launch] {
    launch_.command = launch->remaining();
    action_ = [this] { return launch_command(); };
  });
}

void CommandLine::translation() {
  auto* translate =
      command("translate-args",
              "Print the run.json for a command line of run_translation.py or of DeepSpeed-Chat's step 1, "
              "and a verdict for "
              "each of its flags.",
              "  ft translate-args -- deepspeed --num_gpus 2 run_translation.py --model_name_or_path "
              "t5-small ... > run.json\n"
              "  ft translate-args --json -- deepspeed main.py --model_name_or_path models/llama-2-7b ...");
  translate->add_flag("--json", translate_.json,
                      "One JSON object on stdout: config, flags, warnings, command.");
  translate->prefix_command();
  translate->callback([this, translate] {
    if (translate_.command.empty()) translate_.command = translate->remaining();
    if (translate_.command.empty())
      throw UserError(Exit::config, "ft translate-args: give a command: ft translate-args -- deepspeed ...");
    action_ = [this] { return translate_args(translate_); };
  });
}

void CommandLine::verification() {
  auto* verify = command("verify", "Check ft's guarantees on your own model: zero.",
                         "  ft verify zero --config run.json");
  verify->require_subcommand(1);
  auto* zero = command(
      "zero",
      "Run a few steps under each ZeRO stage and check losses, memory per rank and bytes sent; exit 0 or 11.",
      "  ft verify zero --config run.json\n"
      "  ft verify zero --config run.json --ranks 1,2,4 --steps 5",
      verify);
  about_a_run(zero, verify_zero_);
  zero->add_option("--ranks", verify_zero_.ranks, "Numbers of ranks to try.")
      ->type_name("N,N,...")
      ->delimiter(',')
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  zero->add_option("--steps", verify_zero_.steps, "Steps per run.")
      ->type_name("N")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  zero->callback([this] { action_ = [this] { return ft::verify_zero(verify_zero_); }; });
}

void CommandLine::readiness() {
  auto* doctor = command("doctor", "Check whether this machine, or those of a hostfile, are ready to train.",
                         "  ft doctor\n"
                         "  ft doctor --config run.json                 its output folder too\n"
                         "  ft doctor --hostfile hosts --config run.json");
  doctor->add_option("--config", doctor_.config, "Also check the output folder of this run.")
      ->type_name("FILE");
  doctor->add_option("overrides", doctor_.overrides, "Settings that override the file.")->type_name("a.b=c");
  doctor
      ->add_option("--hostfile", doctor_.hostfile,
                   "Also check these machines over ssh: one HOST slots=N per line.")
      ->type_name("FILE");
  doctor->add_option("-i,--include", doctor_.include, "Only these of them: HOST[@HOST...].")
      ->type_name("HOSTS");
  doctor->add_option("-e,--exclude", doctor_.exclude, "Use all of the hostfile but these.")
      ->type_name("HOSTS");
  doctor->add_option("--ssh_port", doctor_.ssh_port, "Port of ssh, if not the usual one.")
      ->type_name("N")
      ->check(CLI::Range(1, 65535));
  doctor->add_flag("--json", doctor_.json, "One JSON object on stdout.");
  doctor->callback([this] { action_ = [this] { return ft::doctor(doctor_); }; });
}

const CommandLine::Names& CommandLine::rank_commands() {
  static const Names all{"train", "profile", "eval", "generate"};
  return all;
}

// The ranks' command line is checked here, so that a mistake is reported once and not by every rank.
Exit CommandLine::launch_command() {
  const Names& words = launch_.command;
  if (words.empty()) throw UserError(Exit::config, "ft launch: give a command: ft launch -n 2 train ...");
  if (words[0].ends_with(".py"))
    throw UserError(Exit::config, str("ft launch ", printable(words[0]),
                                      ": ft runs no Python; ft translate-args -- deepspeed ",
                                      printable(words[0]), " ... says what to type instead"));
  if (words[0][0] == '-') {
    Names options;
    for (const CLI::Option* option : app_.get_subcommand("launch")->get_options())
      for (const std::string& name : option->get_lnames()) options.push_back("--" + name);
    const std::string near = nearest(words[0].substr(0, words[0].find('=')), options);
    throw UserError(Exit::config,
                    str("ft launch: there is no option ", printable(words[0]),
                        near.empty() ? "; see " : "; do you mean " + near + "? See ", "ft launch --help"));
  }
  const Names& known = rank_commands();
  if (std::find(known.begin(), known.end(), words[0]) == known.end())
    throw UserError(Exit::config, str("ft launch ", printable(words[0]),
                                      " is not available yet; available: train, profile, eval, generate"));
  CommandLine ranks;
  try {
    ranks.app_.parse(Names(words.rbegin(), words.rend()));
  } catch (const CLI::CallForHelp&) {
    return ranks.run(words);
  } catch (const CLI::ParseError& error) {
    ranks.refuse(error, words);
  }
  if (words[0] == "generate") {  // there is no run folder: logs lie next to the answers
    const std::string& output = ranks.generate_.output;
    return launch(launch_, output.empty() ? "generate" : output + ".logs", {}, false);
  }
  const ConfigArgs& args = words[0] == "eval"      ? static_cast<const ConfigArgs&>(ranks.eval_)
                           : words[0] == "profile" ? static_cast<const ConfigArgs&>(ranks.profile_)
                                                   : ranks.train_;
  // The hosts of a file are counted later, and then by every rank.
  const int size = launch_.hostfile.empty() ? launch_.ranks * std::max(1, launch_.nodes) : 0;
  const RunConfig config =
      load_config(args.config, args.settings(),
                  {.ranks = size, .trains = size > 0 && (words[0] == "train" || words[0] == "profile")});
  return launch(launch_, config.training.output_dir, config.distributed, config.on_gpu());
}

}  // namespace ft
