// ft plan.
#include "app/plan/plan.h"

#include "app/commands/list.h"
#include "app/commands/run_options.h"

namespace ft::commands {
namespace {

void add_speeds(CLI::App& app, PlanArgs& args) {
  app.add_option("--disk", args.speeds.disk,
                 "Speed of the files that hold parameters or states, instead of a measurement: 2GB/s.")
      ->type_name("SPEED");
  app.add_option("--pcie", args.speeds.pcie,
                 "Speed of copies between a GPU and the host's memory, each way: 50GB/s.")
      ->type_name("SPEED");
  app.add_option("--flops", args.speeds.flops,
                 "Speed of a rank's arithmetic, instead of a measurement: 1.5TFLOPS.")
      ->type_name("SPEED");
}

Use plan_options(CLI::App& app) {
  const auto args = std::make_shared<PlanArgs>();
  app.add_option("--config", args->config, "The run's configuration.")->type_name("FILE");
  app.add_option("--model", args->model,
                 "A model folder or config.json, planned at full length without data: with the settings of "
                 "--config, or the default ones.")
      ->type_name("DIR");
  add_overrides(app, args->overrides);
  add_deepspeed_option(app, *args);
  app.add_flag("--json", args->json, "One JSON object on stdout.");
  auto* parameters =
      app.add_option("--parameters", args->parameters,
                     "Instead of --config: memory for X trained parameters by ZeRO's formulas.");
  parameters->type_name("X")->check(CLI::PositiveNumber);
  app.add_option("--ranks", args->ranks, "Plan for N ranks on all machines together, under each ZeRO stage.")
      ->type_name("N")
      ->check(CLI::Range(1, 1024));
  app.add_option("--gpu", args->gpu,
                 "Plan for this GPU: h200, rtx4090, ..., or a memory size such as 24GiB. This machine need "
                 "not have it.")
      ->type_name("GPU")
      ->excludes(parameters);
  add_speeds(app, *args);
  app.callback([args] {
    const bool run = !args->config.empty() || !args->model.empty();
    if (run == (args->parameters > 0))
      throw UserError(Exit::config, "ft plan: give --config FILE, --model DIR or both, or --parameters X");
  });
  return {.run = [args] { return args->parameters > 0 ? plan_by_formula(*args) : plan(*args); }};
}

}  // namespace

const Command kPlan{
    "plan", "Show memory and FLOPs of a step, without reading weights.",
    "  ft plan --config run.json\n"
    "  ft plan --config run.json data.max_seq_length=4096 --json\n"
    "  ft plan --model models/llama-2-7b training.gradient_checkpointing=false\n"
    "  ft plan --config run.json --model config.json --gpu rtx4090     needs no weights or data\n"
    "  ft plan --config run.json --ranks 8 --gpu 24GiB\n"
    "  ft plan --parameters 7.5e9 --ranks 64     by ZeRO's formulas",
    plan_options};

}  // namespace ft::commands
