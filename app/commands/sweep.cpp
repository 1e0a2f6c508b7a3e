// ft sweep.
#include "app/sweep/sweep.h"

#include "app/commands/list.h"
#include "app/commands/run_options.h"

namespace ft::commands {
namespace {

Use sweep_options(CLI::App& app) {
  const auto args = std::make_shared<SweepArgs>();
  add_run_options(app, *args);
  app.add_flag("--dry-run", args->dry_run, "Plan each run; train none.");
  app.add_flag("--longest", args->longest,
               "Find the longest data.max_seq_length that fits with each combination of the other "
               "settings; train none.");
  app.add_option("--find", args->find,
                 "Instead of the grid: find the best value of this setting by successive halving.")
      ->check(CLI::IsMember({"learning_rate"}))
      ->type_name("SETTING");
  return {.run = [args] { return sweep(*args); }};
}

}  // namespace

const Command kSweep{
    "sweep", "Train with every combination of the settings in sweep.grid, one run after another.",
    "  ft sweep --config run.json 'sweep.grid={\"zero_stage\": [0, 3], \"data.max_seq_length\": "
    "[512, 1024]}'\n"
    "  ft sweep --config run.json --dry-run      only plan the memory of each\n"
    "  ft sweep --config run.json --longest      the longest max_seq_length that fits\n"
    "  ft sweep --config run.json --find learning_rate      at the cost of one and a half runs",
    sweep_options};

}  // namespace ft::commands
