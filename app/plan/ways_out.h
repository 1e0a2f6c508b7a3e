// Ways to make a run smaller that does not fit: settings that it does not have already,
// first those that cost time, then those that change what is learned.
#pragma once
#include <string>
#include <vector>

#include "app/config/config.h"

namespace ft {

struct WayOut {
  std::string setting;
  RunConfig config;       // with it
  std::string cost = "";  // beside time, in words
};
// training: else a run that only computes, such as an evaluation.
std::vector<WayOut> ways_out(const RunConfig&, bool training);

// The same in words, for a message that ends with them, with the sizes that could be smaller.
std::string advice_on_memory(const RunConfig&, bool training);

}  // namespace ft
