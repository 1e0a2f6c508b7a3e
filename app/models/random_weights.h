// Random weights as transformers makes them: matrices and embeddings normal with deviation initializer_range
// (T5's with their own), norms 1, biases 0, the padding token's embedding 0. A weight is a function of seed,
// name and index, whatever the number of threads.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "engine/core/random.h"
#include "engine/files/safetensors_write.h"
#include "models/registry.h"

namespace ft {

class RandomWeights {
 public:
  // padding: the token whose embedding is 0; below 0 there is none.
  RandomWeights(const MadeModel&, std::uint64_t seed, std::int64_t padding);

  const std::vector<std::pair<std::string, Shape>>& tensors() const { return tensors_; }
  double parameters() const;  // a double: sizes that config.json may state multiply beyond every integer
  // Values of one of them, f32, until the next call.
  Tensor operator()(const std::string& name, const Shape&);

 private:
  Random random_;
  ModelInfo info_;
  std::int64_t padding_;
  std::vector<std::pair<std::string, Shape>> tensors_;
  std::map<std::string, double> deviations_;  // where they are not initializer_range
  std::vector<float> values_;
};

}  // namespace ft
