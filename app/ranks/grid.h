// Arranges a run's ranks by distributed.{data,sequence,tensor,pipeline}_parallel_size.
#pragma once
#include "engine/ranks/grid.h"
#include "engine/zero/config.h"

namespace ft {

// Returns the grid of `ranks` ranks; the data axis gets the ranks that the other axes leave. Throws UserError
// (config) if the sizes do not fit the number of ranks; the message names sizes that do.
GridShape grid_shape(const DistributedConfig&, int ranks);

}  // namespace ft
