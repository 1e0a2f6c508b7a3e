#include "app/train/profile.h"

#include <iostream>

#include "app/files/model_files.h"
#include "app/profile/profiled_step.h"
#include "app/run/run.h"
#include "app/train/reference.h"
#include "app/train/trainer_parts.h"

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

Observers profiler(const Run& run, bool json) {
  Observers all;
  all.push_back(std::make_unique<ProfiledStep>(
      run.built.model(), run.config.logging.flops_profiler,
      ProfiledStep::To{.folder = run.config.training.output_dir,
                       .tell = [](const std::string& text) { std::cout << text << "\n"; },
                       .ranks = run.ranks.size,
                       .json = json}));
  return all;
}

RunHeader header(Run& run) {
  RunHeader head;
  head.run_name = run.config.logging.run_name.value_or("");
  head.output = run.config.training.output_dir;
  head.architecture = run.built.made.info.architecture;
  head.peak_flops = run.ops().peak_flops(run.built.dtype) * run.ranks.size;
  return head;
}

}  // namespace

Exit profile(const ProfileArgs& args) {
  const RunConfig config =
      only_steps(load_config(args.config, args.settings(), {.ranks = ranks_here(), .trains = true}));
  if (config.objective.generates() || config.objective.rewrites())
    throw UserError(Exit::config,
                    "objective: ft profile does not generate answers; logging.flops_profiler "
                    "profiles a step of ft train");
  Run run(config);
  const Ranks& ranks = run.ranks;
  if (ranks.grid.pipeline > 1)
    throw UserError(Exit::config,
                    "distributed.pipeline_parallel_size: ft profile measures one micro-batch at a time; "
                    "leave it out, or use ft train --trace");
  Screen screen(Screen::standard_error(run.progress()));
  run.build(screen);
  if (ranks.root()) run.observe(profiler(run, args.json));
  run.plan();
  const RunHeader head = header(run);
  Engine& engine = run.start();
  if (run.objective.precomputes) precompute_reference(run, screen);
  const auto files = make_model_files(run.built);
  Checkpoints none(run.built.model(), engine.store, *engine.comm, *files, config.training.output_dir);
  Reports report;
  for (auto& observer : run.take_observers()) report.add(std::move(observer));
  report.begin(head);
  TrainerParts parts = trainer_parts(run, none, report);
  parts.eval = nullptr;
  Trainer trainer(std::move(parts), config.train());
  TrainState state;
  trainer.run(state);
  return Exit::done;
}

}  // namespace ft
