// distributed.sequence_parallel_size: ranks that share the tokens of each micro-batch.
#pragma once
#include "app/config/config.h"
#include "engine/model/model.h"

namespace ft {

// Does nothing with one rank. Throws UserError (config) for a model whose tokens ranks cannot share.
void require_shareable(const RunConfig&, Model&);

}  // namespace ft
