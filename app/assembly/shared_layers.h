// distributed.tensor_parallel_size: a rank's part of a model whose layers are split among ranks.
#pragma once
#include "app/assembly/built_model.h"

namespace ft {

// Keeps only this rank's part of each layer. Throws UserError (config) if the model cannot be split, or if
// another setting is not available together with it.
void share_layers(BuiltModel&, const RunConfig&, TensorRank);

// Throws UserError (config) if this rank has only a part of a trained parameter and the optimizer keeps
// states that span several of its elements. `setting` split the parameters; it is named in the error.
void require_elementwise(BuiltModel&, const RunConfig&, const char* setting);

}  // namespace ft
