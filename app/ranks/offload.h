// zero_optimization.offload_param and offload_optimizer: where values and states are stored.
#pragma once
#include "app/config/config.h"
#include "engine/zero/parameter_store.h"

namespace ft {

// Sets where parameters and states are stored. On CPUs, device cpu changes nothing.
void set_homes(ZeroOptions&, const RunConfig&);

// Returns a sentence about offload settings that have no effect here; empty: none.
std::string idle_homes(const RunConfig&);

// Returns the settings for another stage, without the settings that this stage does not have.
ZeroConfig at_stage(ZeroConfig, int stage);

}  // namespace ft
