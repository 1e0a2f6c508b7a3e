#include "app/train/profile.h"

#include <iostream>

#include "app/assembly/built_data.h"
#include "app/assembly/engine.h"
#include "app/files/model_files.h"
#include "app/plan/planned.h"
#include "app/plan/request.h"
#include "app/plan/ways_out.h"
#include "app/profile/profiled_step.h"
#include "app/train/reference.h"
#include "app/train/teach.h"
#include "engine/ops/ops.h"
#include "engine/train/trainer.h"

namespace ft {
namespace {

// Returns the configuration of the steps up to the profiled one, without resuming, evaluating or saving.
RunConfig only_steps(RunConfig config) {
  config.training.max_steps = config.logging.flops_profiler.profile_step;
  config.training.resume_from_checkpoint = Resume::none;
  config.evaluation = {};
  config.checkpointing.save_strategy = SaveStrategy::no;
  return config;
}

}  // namespace

Exit profile(const ProfileArgs& args) {
  const RunConfig config =
      only_steps(load_config(args.config, args.settings(), {.ranks = ranks_here(), .trains = true}));
  if (config.objective.generates())
    throw UserError(Exit::config,
                    "objective: ft profile does not generate answers; logging.flops_profiler "
                    "profiles a step of ft train");
  const Ranks ranks = find_ranks(config);
  if (ranks.grid.pipeline > 1)
    throw UserError(
        Exit::config,
        "distributed.pipeline_parallel_size: ft profile knows of one micro-batch at a time; leave it "
        "out, or look at ft train --trace");
  Screen screen(Screen::standard_error(ranks.root() ? config.logging.progress : ProgressStyle::none));
  BuiltModel built = build_model(config, Weights::check, ranks.part());
  const BuiltObjective objective = build_objective(config, built, Weights::check);
  BuiltData data = read_data(config, built, ranks.grid.data, screen);
  if (objective.taught) require_taught(*objective.taught, data);
  auto ops = make_run_ops(config, ranks.gpu);
  CommunicationNotes notes;
  std::unique_ptr<Report> report = std::make_unique<Report>();
  ProfiledStep* profiled = nullptr;  // set on rank 0
  if (ranks.root()) {
    auto own = std::make_unique<ProfiledStep>(
        *ops, built.model(), notes, config.logging.flops_profiler,
        ProfiledStep::To{.folder = config.training.output_dir,
                         .tell = [](const std::string& text) { std::cout << text << "\n"; },
                         .ranks = ranks.size,
                         .json = args.json});
    profiled = own.get();
    report = std::move(own);
  }
  auto comm = make_communicator(ranks, *ops, config, profiled ? &notes : nullptr);
  PlanRequest request = plan_request(config, built, objective, data, ops->workspace(), ranks.grid);
  request.driver = driver_memory(*ops);
  request.recompute = choose_recomputed(config, built.model(), request, *ops, ranks, *comm);
  const Plan plan = plan_run(built.model(), request);
  require_memory(plan.memory, *ops, advice_on_memory(config, true), ranks.local_size);

  RunHeader head;
  head.run_name = config.logging.run_name.value_or("");
  head.output = config.training.output_dir;
  head.architecture = built.made.info.architecture;
  head.peak_flops = ops->peak_flops(built.dtype) * ranks.size;
  Engine engine(std::move(ops), std::move(comm), built, request, plan, profiled ? &profiled->ops() : nullptr,
                &objective);
  if (profiled) profiled->watch(engine.saved);
  if (objective.precomputes) precompute_reference(engine, built, objective, data, screen);
  const auto files = make_model_files(built);
  Checkpoints none(built.model(), engine.store, *engine.comm, *files, config.training.output_dir);
  report->begin(head);
  Trainer trainer({.context = engine.context,
                   .model = built.model(),
                   .store = engine.store,
                   .comm = engine.grid.zero(),
                   .data = data.batches(),
                   .eval = nullptr,
                   .checkpoints = none,
                   .report = *report,
                   .stop_asked = [] { return false; },
                   .add_to_checkpoint = [](const std::string&) {},
                   .flops_per_token = plan.flops_per_token,
                   .objective = objective.objective.get(),
                   .others = engine.others},
                  config.train());
  TrainState state;
  trainer.run(state);
  return Exit::done;
}

}  // namespace ft
