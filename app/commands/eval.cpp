// ft eval.
#include "app/train/eval.h"

#include "app/commands/list.h"
#include "app/commands/run_options.h"

namespace ft::commands {
namespace {

Use eval_options(CLI::App& app) {
  const auto args = std::make_shared<EvalArgs>();
  add_run_options(app, *args);
  app.add_option("--adapter", args->adapter, "PEFT adapter to apply to the model.")->type_name("DIR");
  app.add_option("--answers", args->answers, "Also answer the first N samples and count exact matches.")
      ->type_name("N")
      ->check(CLI::PositiveNumber);
  app.add_flag("--json", args->json, "One JSON object on stdout.");
  return {.run = [args] { return eval(*args); },
          .launch = [args](const LaunchArgs& launched) { return launch_run(launched, *args, false); }};
}

}  // namespace

const Command kEval{"eval", "Measure loss and perplexity on the configuration's evaluation data.",
                    "  ft eval --config run.json\n"
                    "  ft eval --config run.json --adapter outputs/run --json\n"
                    "  ft eval --config run.json --adapter outputs/run --answers 20",
                    eval_options};

}  // namespace ft::commands
