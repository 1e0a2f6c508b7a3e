// A stage's part of a step, in the order of stage_schedule.h.
#pragma once
#include <functional>

#include "engine/model/model.h"

namespace ft {

struct StageStep {
  Model& model;
  ParameterStore& store;
  Ctx& context;  // of the run; with in_flight() - 1 arenas more
  StageLoss loss;
  std::int64_t micro_batches = 1;  // see PipelineShape
  // Makes one, and what of its Ctx is its own. Called once for each, in ascending order.
  std::function<Batch(std::int64_t, Ctx&)> take;
};

// All stages call it together, with the same micro-batches.
void run_stage(const StageStep&);

}  // namespace ft
