// ft init: a model with random weights from a config.json, as transformers makes it: matrices and embeddings
// normal with deviation initializer_range (T5's with their own), norms 1, biases 0, the padding token's
// embedding 0. A weight is a function of seed, name and index, whatever the number of threads.
#pragma once
#include <cstdint>
#include <string>

#include "engine/core/error.h"

namespace ft {

struct InitArgs {
  std::string config;  // a config.json
  std::string output;  // a new folder
  std::int64_t seed = 42;
  std::string dtype;  // float32, bfloat16, float16; empty: config.json's, else float32
};
Exit init(const InitArgs&);

}  // namespace ft
