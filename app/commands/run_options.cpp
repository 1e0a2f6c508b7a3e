#include "app/commands/run_options.h"

#include <algorithm>

#include "app/config/config.h"
#include "app/launch/launch.h"

namespace ft::commands {

void add_run_options(CLI::App& app, ConfigArgs& args) {
  app.add_option("--config", args.config, "The run's configuration (ft help config).")
      ->required()
      ->type_name("FILE");
  add_overrides(app, args.overrides);
  add_deepspeed_option(app, args);
}

void add_overrides(CLI::App& app, Names& overrides) {
  app.add_option("overrides", overrides, "Settings that override the file.")->type_name("a.b=c");
}

void add_deepspeed_option(CLI::App& app, ConfigArgs& args) {
  app.add_option("--deepspeed", args.deepspeed,
                 "DeepSpeed's JSON: its settings join the configuration's (docs/deepspeed.md).")
      ->type_name("FILE");
}

Exit launch_run(const LaunchArgs& launched, const ConfigArgs& args, bool trains) {
  // The hosts in a host file are counted later, by every rank.
  const int size = launched.hostfile.empty() ? launched.ranks * std::max(1, launched.nodes) : 0;
  const RunConfig config =
      load_config(args.config, args.settings(), {.ranks = size, .trains = size > 0 && trains});
  return launch(launched, config.training.output_dir, config.distributed, config.on_gpu());
}

}  // namespace ft::commands
