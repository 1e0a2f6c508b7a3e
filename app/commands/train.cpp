// ft train.
#include "app/train/train.h"

#include "app/commands/begin_options.h"
#include "app/commands/list.h"
#include "app/commands/run_options.h"
#include "app/launch/launch.h"

namespace ft::commands {
namespace {

// Starts the ranks of a run whose settings are chosen here, once: the ranks get them on their command lines.
Exit launch_chosen(const LaunchArgs& launched, const TrainArgs& args) {
  if (launched.ranks == 0 || launched.nodes > 1 || !launched.hostfile.empty())
    throw UserError(Exit::config,
                    "ft launch: train --model needs -n N, the number of ranks on this machine; for several "
                    "machines write the settings first: ft new");
  Screen screen(Screen::standard_error());
  const Beginning chosen = begin_training(args, launched.ranks, screen);
  LaunchArgs launch_args = launched;
  launch_args.command.emplace_back("--as-given");
  for (const Decision& d : chosen.decisions()) launch_args.command.push_back(d.assignment());
  const RunConfig& config = chosen.config();
  return launch(launch_args, config.training.output_dir, config.distributed, config.on_gpu());
}

void check_options(const TrainArgs& args) {
  const BeginArgs& begin = args.begin;
  const auto refuse = [](const char* why) { throw UserError(Exit::config, str("ft train: ", why)); };
  if (!args.config.empty() && begin != BeginArgs{})
    refuse(
        "--config has a model and data; override them with model.model_name_or_path=MODEL and the like, or "
        "leave --config out");
  if (args.config.empty() && begin.model.empty())
    refuse("give --config FILE, or --model MODEL and --data DATA; see ft train --help");
  if (args.config.empty() && begin.data.empty()) refuse("--model needs --data, the examples to learn from");
}

Use train_options(CLI::App& app) {
  const auto args = std::make_shared<TrainArgs>();
  app.add_option("--config", args->config, "The run's configuration (ft help config).")->type_name("FILE");
  add_begin_options(app, args->begin);
  app.add_option("--output", args->begin.output,
                 "With --model: the run's folder (default: outputs/NAME, after the data).")
      ->type_name("DIR");
  app.add_flag("--as-given", args->begin.as_given,
               "With --model: choose no settings; ft launch starts its ranks so.");
  add_overrides(app, args->overrides);
  add_deepspeed_option(app, *args);
  app.add_flag("--overwrite", args->overwrite, "Replace the run in the output folder.");
  app.add_option("--trace", args->trace,
                 "Write a timeline of every operation in three steps after the first to this file (for "
                 "ui.perfetto.dev) and print a table.")
      ->type_name("FILE");
  app.callback([args] { check_options(*args); });
  return {.run = [args] { return train(*args); },
          .launch =
              [args](const LaunchArgs& launched) {
                return args->begin.model.empty() ? launch_run(launched, *args, true)
                                                 : launch_chosen(launched, *args);
              }};
}

}  // namespace

const Command kTrain{"train", "Fine-tune a model.",
                     "  ft train --model Qwen/Qwen3-0.6B --data chats.jsonl       chooses the settings\n"
                     "  ft train --model base.gguf --data chats.jsonl --qlora training.num_train_epochs=1\n"
                     "  ft train --config run.json\n"
                     "  ft train --config run.json training.learning_rate=1e-4 lora.r=32\n"
                     "  ft train --config run.json training.resume_from_checkpoint=auto\n"
                     "  ft train --config run.json --deepspeed ds.json",
                     train_options};

}  // namespace ft::commands
