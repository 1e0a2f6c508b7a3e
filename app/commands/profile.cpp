// ft profile.
#include "app/train/profile.h"

#include "app/commands/list.h"
#include "app/commands/run_options.h"

namespace ft::commands {
namespace {

Use profile_options(CLI::App& app) {
  const auto args = std::make_shared<ProfileArgs>();
  add_run_options(app, *args);
  app.add_flag("--json", args->json, "One JSON object on stdout.");
  return {.run = [args] { return profile(*args); },
          .launch = [args](const LaunchArgs& launched) { return launch_run(launched, *args, true); }};
}

}  // namespace

const Command kProfile{"profile", "Show the costs of each module in a step: parameters, FLOPs, time, memory.",
                       "  ft profile --config run.json\n"
                       "  ft profile --config run.json logging.flops_profiler.module_depth=3 --json\n"
                       "  ft launch -n 2 profile --config run.json zero_stage=3",
                       profile_options};

}  // namespace ft::commands
