// distributed.sequence_parallel_size: ranks that share the tokens of each micro-batch.
#pragma once
#include "app/config/config.h"
#include "engine/model/model.h"

namespace ft {

// Prepares the model for ranks that share the tokens of each micro-batch; does nothing if
// sequence_parallel_size is 1. Throws UserError (config) if the model does not support it.
void require_shareable(const RunConfig&, Model&);

}  // namespace ft
