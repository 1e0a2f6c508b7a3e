// ft merge: merges an adapter into its base. Sums W + s B A in f32 and rounds once, tensor by tensor, and
// then checks that the merged model computes the same logits.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/core/error.h"

namespace ft {

struct MergeArgs {
  std::string model, adapter, output;
  std::string dtype;  // float32, bfloat16, float16; empty: the model's dtype
  bool overwrite = false;
  std::vector<std::string> average;  // folders to average, instead of model and adapter

  // Adapters as typed, FOLDER or FOLDER=WEIGHT; `adapter` is the folder of their mix. The options below need
  // several adapters.
  std::vector<std::string> adapters;
  std::optional<std::string> combination_type, majority_sign_method;
  std::optional<double> density;
  std::optional<std::int64_t> svd_rank;
  std::optional<std::uint64_t> seed;
};
Exit merge(const MergeArgs&);

}  // namespace ft
