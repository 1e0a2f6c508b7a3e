// Random weights as transformers initializes them: matrices and embeddings normal with deviation
// initializer_range (T5: with its own deviations), norms 1, biases 0, the padding token's embedding 0. A
// weight depends only on seed, name and index, not on the number of threads.
#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "engine/core/random.h"
#include "engine/files/safetensors/safetensors_write.h"
#include "models/registry.h"

namespace ft {

class RandomWeights {
 public:
  // `padding`: the token whose embedding is 0; negative: none.
  RandomWeights(const MadeModel&, std::uint64_t seed, std::int64_t padding);

  const std::vector<std::pair<std::string, Shape>>& tensors() const { return tensors_; }
  bool wide(const std::string& name) const { return wide_.contains(name); }  // f32 in all files
  double parameters() const;  // a double, because sizes in config.json may multiply beyond any integer
  // Returns a tensor's values in f32. They are valid until the next call.
  Tensor operator()(const std::string& name, const Shape&);

 private:
  Random random_;
  ModelInfo info_;
  std::int64_t padding_;
  std::vector<std::pair<std::string, Shape>> tensors_;
  std::map<std::string, double> deviations_;  // deviations other than initializer_range
  std::map<std::string, Initial> initial_;    // kinds of initial values other than the usual
  std::set<std::string> wide_;
  std::vector<float> values_;
};

}  // namespace ft
