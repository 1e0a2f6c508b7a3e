// Options of the commands about a run, and the start of a run's ranks.
#pragma once
#include "app/commands/command.h"
#include "app/config/args.h"

namespace ft::commands {

void add_run_options(CLI::App& app, ConfigArgs& args);  // --config, --deepspeed and overrides
void add_overrides(CLI::App& app, Names& overrides);
void add_deepspeed_option(CLI::App& app, ConfigArgs& args);

// Starts the ranks of a run for ft launch. `trains`: the command trains.
Exit launch_run(const LaunchArgs& launched, const ConfigArgs& args, bool trains);

}  // namespace ft::commands
