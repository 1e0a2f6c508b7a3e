// ft tune.
#include "app/tune/tune.h"

#include "app/commands/list.h"
#include "app/commands/run_options.h"

namespace ft::commands {
namespace {

Use tune_options(CLI::App& app) {
  const auto args = std::make_shared<TuneArgs>();
  add_run_options(app, *args);
  app.add_option_function<std::string>(
         "--metric", [args](const std::string& word) { args->metric = *value_of<TuneMetric>(word); },
         "Goal: the most tokens per second (throughput), the shortest step (latency), or the least memory "
         "and, with equal memory, the highest speed (memory).")
      ->check(CLI::IsMember({"throughput", "latency", "memory"}))
      ->default_str("throughput");
  app.add_option_function<std::string>(
         "--trials",
         [args](const std::string& word) {
           args->all = word == "all";
           if (!args->all) args->trials = std::stoll(word);
         },
         "Try at most N settings, or all that fit (default: a tenth of them, 6 to 50).")
      ->type_name("N|all")
      ->check(CLI::IsMember({"all"}) | CLI::Range(1, 1'000'000));
  app.add_flag("--json", args->json, "One JSON object on stdout.");
  return {.run = [args] { return tune(*args); }};
}

}  // namespace

const Command kTune{"tune",
                    "Find the fastest settings of a run by planning all and trying a few. The sequences of a "
                    "step, and so the trained result, stay the same.",
                    "  ft tune --config run.json\n"
                    "  ft tune --config run.json --metric memory\n"
                    "  ft tune --config run.json zero_stage=2        settings given here are not varied\n"
                    "  ft tune --config run.json 'tune.space={\"training.bf16\": [true, false]}'",
                    tune_options};

}  // namespace ft::commands
