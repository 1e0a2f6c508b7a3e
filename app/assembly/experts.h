// Settings of models with experts: model.capacity_factor, distributed.expert_parallel_size.
#pragma once
#include "app/assembly/built_model.h"

namespace ft {

bool has_experts(const BuiltModel&);

// Gives experts their room. UserError (exit 2) where the model has none.
void limit_experts(BuiltModel&, const RunConfig&);

// Leaves the rank its experts. UserError (exit 2) where the model has none, their number does not divide, or
// another setting is not computed with it yet.
void deal_experts(BuiltModel&, const RunConfig&, TensorRank);

}  // namespace ft
