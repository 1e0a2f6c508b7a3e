// Chooses the machines and slots of a launch, from a hostfile or from this machine, by --include, --exclude,
// --num_nodes and -n.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "app/launch/hostfile.h"
#include "app/launch/launch.h"

namespace ft {

// `each`: ranks of a machine; `nodes`: machines; 0: not given. Throws UserError (config) if these numbers and
// the selection disagree, or if the number of ranks is not given at all.
std::vector<Host> choose_resources(const LaunchArgs&, int each, int nodes, bool on_gpu);

// Returns the numbers of this machine's GPUs: those in `shown`, the value of CUDA_VISIBLE_DEVICES, or all if
// it is not set. Throws UserError (config) if `shown` does not list numbers.
std::vector<int> gpus_here(const std::optional<std::string>& shown);

}  // namespace ft
