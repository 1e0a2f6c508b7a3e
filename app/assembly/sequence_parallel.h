// distributed.sequence_parallel_size: ranks that share the tokens of each micro-batch.
#pragma once
#include "app/config/config.h"
#include "engine/model/model.h"

namespace ft {

// Does nothing where no ranks do. UserError(Exit::config) where the model, or something else that the run is
// to do, cannot have it.
void require_shareable(const RunConfig&, Model&);

}  // namespace ft
