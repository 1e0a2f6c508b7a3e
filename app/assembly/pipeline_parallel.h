// distributed.{,virtual_}pipeline_parallel_size: a rank's part of a model whose blocks are split among ranks.
#pragma once
#include "app/assembly/built_model.h"

namespace ft {

// Keeps only the blocks of this rank's stage, or of its chunks. Stages are cut between blocks, so that their
// amounts of computation are as equal as possible. Throws UserError (config) if there are fewer blocks than
// stages or chunks, or if micro-batches do not fill rounds.
void keep_stages(BuiltModel&, const RunConfig&, const ModelPart&);

}  // namespace ft
