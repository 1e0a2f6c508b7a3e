// Runs a pipeline stage's part of a step, in the order of stage_schedule.h.
#pragma once
#include <functional>

#include "engine/model/stages.h"

namespace ft {

struct StageStep {
  Stages& stages;  // of the model
  ParameterStore& store;
  Ctx& context;  // of the run, with in_flight() - 1 more arenas
  Loss loss;
  std::int64_t micro_batches = 1;  // see PipelineShape
  // Makes a micro-batch, and sets its values in the Ctx. Called once for each, in ascending order.
  std::function<Batch(std::int64_t, Ctx&)> take;
};

// Called by all stages together, with the same micro-batches.
void run_stage(const StageStep&);

}  // namespace ft
