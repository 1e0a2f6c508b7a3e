// distributed.{,virtual_}pipeline_parallel_size: the blocks of a model that a rank keeps.
#pragma once
#include "app/assembly/built_model.h"

namespace ft {

// Leaves a stage, or several chunks, of as much computation as the others as far as whole blocks allow.
// Throws UserError (config) if there are fewer blocks than these, or if micro-batches do not fill rounds.
void keep_stages(BuiltModel&, const RunConfig&, const ModelPart&);

}  // namespace ft
