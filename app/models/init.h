// ft init: writes a model with random weights (random_weights.h) for a config.json. With 4 bits, writes
// directly the folder that `ft quantize` would make of the dense model.
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
  bool double_quant = false;  // stores the scales in 8 bits
};
Exit init(const InitArgs&);

}  // namespace ft
