// Settings of models with experts: model.capacity_factor, distributed.expert_parallel_size.
#pragma once
#include "app/assembly/built_model.h"

namespace ft {

bool has_experts(const BuiltModel&);

// Keeps frozen stacks of experts in MXFP4, if the model's files have them so.
void keep_stacks_coded(BuiltModel&);
// Throws UserError (input) unless the base has these stacks, in their shapes and in MXFP4.
void expect_stacks(const BuiltModel&);

// Sets the experts' capacity factor to model.capacity_factor, if it is set. Throws UserError (config) if the
// model has no experts.
void limit_experts(BuiltModel&, const RunConfig&);

// Keeps only this rank's experts. Throws UserError (config) if the model has none, if the ranks do not divide
// their number, or if another setting is not available together with it.
void deal_experts(BuiltModel&, const RunConfig&, TensorRank);

}  // namespace ft
