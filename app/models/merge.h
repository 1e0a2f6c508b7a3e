// ft merge: folds an adapter into its base, W + s B A summed in f32 and rounded once, tensor by tensor, and
// then checks that the result is the same function.
#pragma once
#include <string>
#include <vector>

#include "engine/core/error.h"

namespace ft {

struct MergeArgs {
  std::string model, adapter, output;
  std::string dtype;  // float32, bfloat16, float16; empty: the model's
  bool overwrite = false;
  std::vector<std::string> average;  // folders; in place of model and adapter
};
Exit merge(const MergeArgs&);

}  // namespace ft
