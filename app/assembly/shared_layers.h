// distributed.tensor_parallel_size: what a rank has of a model where ranks share each layer.
#pragma once
#include "app/assembly/built_model.h"

namespace ft {

// Leaves the rank's part. UserError (exit 2) for what ranks cannot share, or not yet.
void share_layers(BuiltModel&, const RunConfig&, TensorRank);

// UserError (exit 2) where the optimizer keeps states of more than single elements of a parameter of which
// this rank has a part, which `setting` has brought about.
void require_elementwise(BuiltModel&, const RunConfig&, const char* setting);

}  // namespace ft
