// Fits the chosen settings into memory, by the plans that ft plan makes.
#pragma once
#include <functional>
#include <vector>

#include "app/begin/decisions.h"
#include "app/config/config.h"

namespace ft {

// Returns the settings for so many ranks on each machine; 0: as they say.
RunConfig on_ranks(RunConfig, int ranks);

using Decide = std::function<std::vector<Decision>(const Thrift&)>;

// Returns the decisions for the fewest savings with which `fits` is true: smaller micro-batches, then
// bfloat16, then optimizer states and weights shared among ranks. Returns those for all savings if none fit.
std::vector<Decision> fewest_savings(const Decide&, bool several_ranks,
                                     const std::function<bool(const std::vector<Decision>&)>& fits);

// Returns the decisions for the fewest savings with which the run fits into this machine's memory. Throws
// UserError (memory), with settings that would help, if it never does. settings: makes the configuration.
std::vector<Decision> fit_decisions(const Decide&, bool several_ranks,
                                    const std::function<RunConfig(const std::vector<Decision>&)>& settings);

}  // namespace ft
