// Compares the logits of two models for a few tokens, to find out if they compute the same function.
#pragma once
#include <vector>

#include "app/assembly/built_model.h"

namespace ft {

// Logits (tokens, V) of a fixed batch of tokens, in f32, computed in the type of the model. Loads the model's
// weights.
std::vector<float> probe_logits(const BuiltModel&, std::int64_t tokens);

struct LogitDifference {
  double largest = 0;    // absolute difference
  double magnitude = 0;  // largest absolute logit
};
LogitDifference compare_logits(const std::vector<float>&, const std::vector<float>&);

}  // namespace ft
