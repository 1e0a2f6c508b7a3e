// distributed.{data,sequence,tensor,pipeline}_parallel_size: how a run's ranks are arranged.
#pragma once
#include "engine/ranks/grid.h"
#include "engine/zero/config.h"

namespace ft {

// The grid of this many ranks; data gets what the other axes leave. UserError(Exit::config) where the sizes
// do not fit their number, with sizes that would.
GridShape grid_shape(const DistributedConfig&, int ranks);

}  // namespace ft
