// distributed.{,virtual_}pipeline_parallel_size: what a rank has of a model whose blocks are dealt out.
#pragma once
#include "app/assembly/built_model.h"

namespace ft {

// Leaves a stage, or several chunks, of as much computation as the others as far as whole blocks allow.
// UserError (Exit::config) where there are fewer blocks than these, or the run has something that a pipeline
// has not.
void keep_stages(BuiltModel&, const RunConfig&, const ModelPart&);

}  // namespace ft
