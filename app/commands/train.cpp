// ft train.
#include "app/train/train.h"

#include "app/commands/list.h"
#include "app/commands/run_options.h"

namespace ft::commands {
namespace {

Use train_options(CLI::App& app) {
  const auto args = std::make_shared<TrainArgs>();
  add_run_options(app, *args);
  app.add_flag("--overwrite", args->overwrite, "Replace the run in the output folder.");
  app.add_option("--trace", args->trace,
                 "Write a timeline of every operation in three steps after the first to this file (for "
                 "ui.perfetto.dev) and print a table.")
      ->type_name("FILE");
  return {.run = [args] { return train(*args); },
          .launch = [args](const LaunchArgs& launched) { return launch_run(launched, *args, true); }};
}

}  // namespace

const Command kTrain{"train", "Fine-tune a model.",
                     "  ft train --config run.json\n"
                     "  ft train --config run.json training.learning_rate=1e-4 lora.r=32\n"
                     "  ft train --config run.json training.resume_from_checkpoint=auto\n"
                     "  ft train --config run.json --deepspeed ds.json",
                     train_options};

}  // namespace ft::commands
