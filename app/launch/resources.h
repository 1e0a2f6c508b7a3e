// Which machines and slots a launch takes: those of a hostfile, or this one, as --include, --exclude,
// --num_nodes and -n select them.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "app/launch/hostfile.h"
#include "app/launch/launch.h"

namespace ft {

// each, nodes: ranks of a machine and machines that are asked for; 0: not said. UserError(Exit::config) where
// that and the selection disagree, or nothing says how many ranks there are.
std::vector<Host> choose_resources(const LaunchArgs&, int each, int nodes, bool on_gpu);

// The numbers of this machine's GPUs: those in `shown`, which is CUDA_VISIBLE_DEVICES where it is set, else
// all of them. UserError(Exit::config) where it names them otherwise.
std::vector<int> gpus_here(const std::optional<std::string>& shown);

}  // namespace ft
