// LoRA-GA (Wang, Yu and Li, "LoRA-GA: Low-Rank Adaptation with Gradient Approximation", 2024), as PEFT's
// lora_ga_init: A and B begin with singular vectors of the loss's gradient in W, so that the first steps
// change s B A as they would change W. The base loses s B A.
#pragma once
#include <functional>

#include "engine/core/random.h"
#include "lora/starts/decompose.h"
#include "lora/starts/starts.h"

namespace ft::lora {

// A Linear with an adapter, and the gradient G (out, in) of its weight.
struct GradientOf {
  MatrixView gradient;
  std::int64_t rank;
  double scale;                              // of the adapter
  std::int64_t rows;                         // rows of the weight in the file
  std::function<double()> largest_singular;  // of the weight
};

// Returns A (r, in) and B (out, r) from the 2 r largest singular values S of G = U S V^T. `direction` chooses
// the r vectors that A takes from V^T and B from U S; `scale` multiplies them:
//   stable      B by rows^(1/4) / gamma^(1/2)
//   weight_svd  B by the weight's largest singular value divided by the first that B has, unless that is 0
//   gd_scale    A and B by 1 / s
//   unit        by nothing
// PEFT approximates the singular vectors; these are exact. random: chooses for direction random.
Factors begin_from_gradient(const GradientOf&, const LoraGaConfig&, Random random);

}  // namespace ft::lora
