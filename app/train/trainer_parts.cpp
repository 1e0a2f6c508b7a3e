#include "app/train/trainer_parts.h"

namespace ft {

TrainerParts trainer_parts(Run& run, Checkpoints& checkpoints, Report& report) {
  Engine& engine = run.engine();
  return {.context = engine.context,
          .model = run.built.model(),
          .store = engine.store,
          .comm = engine.grid.zero(),
          .data = run.data.batches(),
          .eval = run.data.held_out(),
          .checkpoints = checkpoints,
          .report = report,
          .stop_asked = [] { return false; },
          .add_to_checkpoint = [](const std::string&) {},
          .flops_per_token = run.count().flops_per_token,
          .objective = run.objective.objective.get(),
          .others = engine.others,
          .snapshot = engine.snapshot ? &*engine.snapshot : nullptr};
}

}  // namespace ft
