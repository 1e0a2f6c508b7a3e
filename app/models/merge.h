// ft merge: folds an adapter into its base, W + s B A summed in f32 and rounded once, tensor by tensor, and
// then checks that the result is the same function.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/core/error.h"

namespace ft {

struct MergeArgs {
  std::string model, adapter, output;
  std::string dtype;  // float32, bfloat16, float16; empty: the model's
  bool overwrite = false;
  std::vector<std::string> average;  // folders; in place of model and adapter

  // As typed, FOLDER or FOLDER=WEIGHT each; `adapter` is what they come to. With more than one folder alone:
  std::vector<std::string> adapters;
  std::optional<std::string> combination_type, majority_sign_method;
  std::optional<double> density;
  std::optional<std::int64_t> svd_rank;
  std::optional<std::uint64_t> seed;
};
Exit merge(const MergeArgs&);

}  // namespace ft
