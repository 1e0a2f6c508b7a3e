// Depots of a GPU: in the host's memory, or in a file.
#pragma once
#include <memory>

#include "engine/ops/ops.h"
#include "engine/zero/depot.h"

namespace ft {

// `ops`: of a GPU, and must outlive the depot. Returns null if the residence is the device itself.
std::shared_ptr<Depot> make_gpu_depot(Ops& ops, const Residence&);

}  // namespace ft
