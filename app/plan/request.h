// Collects the passes and buffers that the plan of a run must include.
#pragma once
#include "app/assembly/built_data.h"
#include "app/assembly/built_model.h"
#include "app/assembly/built_objective.h"
#include "engine/train/planner.h"

namespace ft {

// Adds the passes that value the answers of the shapes in `eval`.
void add_rewarding(PlanRequest&);

// Makes the request of a run. gradient_checkpointing auto counts as true, which needs the least memory
// (planned.h). The request refers to the model and the objective. Throws UserError (config) if the ranks
// cannot split sequences as configured.
PlanRequest plan_request(const RunConfig&, const BuiltModel&, const BuiltObjective&, const BuiltData&,
                         std::int64_t workspace, const GridShape& grid);

}  // namespace ft
