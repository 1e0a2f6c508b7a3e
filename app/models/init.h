// ft init: a model with random weights (random_weights.h) from a config.json, also in 4 bits, where it is the
// folder that `ft quantize` makes of the dense one, which is never written.
#pragma once
#include <cstdint>
#include <string>

#include "engine/core/error.h"

namespace ft {

struct InitArgs {
  std::string config;  // a config.json
  std::string output;  // a new folder
  std::int64_t seed = 42;
  std::string dtype;          // float32, bfloat16, float16; empty: config.json's, else float32
  bool load_in_4bit = false;  // the linears as bitsandbytes' NF4
  bool double_quant = false;  // its scales in 8 bits
};
Exit init(const InitArgs&);

}  // namespace ft
