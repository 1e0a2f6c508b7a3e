// zero_optimization.offload_param and offload_optimizer: where values and states live.
#pragma once
#include "app/config/config.h"
#include "engine/zero/parameter_store.h"

namespace ft {

// On CPUs host memory is the device's, so that cpu changes nothing. UserError(Exit::config) when the stage
// does not have these homes with this many ranks.
void set_homes(ZeroOptions&, const RunConfig&, int ranks);

// Homes that are asked for and change nothing here, in a sentence; empty: none.
std::string idle_homes(const RunConfig&);

// The settings under another stage: those that it does not have, and nobody gave it, are left out.
ZeroConfig at_stage(ZeroConfig, int stage);

}  // namespace ft
