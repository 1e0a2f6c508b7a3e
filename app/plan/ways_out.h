// Settings that reduce a run's memory and that it does not have yet: first those that cost only time, then
// those that change the training.
#pragma once
#include <string>
#include <vector>

#include "app/config/config.h"

namespace ft {

struct WayOut {
  std::string setting;
  RunConfig config;       // the run with that setting
  std::string cost = "";  // cost other than time, as text
};
// `training` false: for a run that only computes, such as an evaluation.
std::vector<WayOut> ways_out(const RunConfig&, bool training);

// Returns the settings, and the sizes that could be smaller, as the end of a message.
std::string advice_on_memory(const RunConfig&, bool training);
// Returns the same for the host's memory, which the run has on GPUs: the settings that need less of it.
std::string advice_on_host_memory(const RunConfig&);

}  // namespace ft
