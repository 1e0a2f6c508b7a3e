// What the plan of a run must allow for.
#pragma once
#include "app/assembly/built_data.h"
#include "app/assembly/built_model.h"
#include "app/assembly/built_objective.h"
#include "engine/train/planner.h"

namespace ft {

// The passes that say what answers of the shapes in `eval` are worth.
void add_rewarding(PlanRequest&);

// With gradient_checkpointing auto, plans as for true, which needs the least memory (planned.h).
// The request refers to the model and the objective. UserError(Exit::config) where ranks cannot share
// sequences as they are to.
PlanRequest plan_request(const RunConfig&, const BuiltModel&, const BuiltObjective&, const BuiltData&,
                         std::int64_t workspace, const GridShape& grid);

}  // namespace ft
