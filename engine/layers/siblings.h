// Linears over the same input: q, k and v, or gate and up. Where their adapters' matrices are contiguous in
// memory, one product serves all of them, forward and for their gradients: the input is read once, and the
// narrow products, whose time is that of reading it, are as wide as possible.
#pragma once
#include <initializer_list>

#include "engine/layers/linear.h"

namespace ft {

struct Sibling {
  const Linear& linear;
  Tensor y;  // (rows, out); backward: its gradient
};
using Siblings = std::initializer_list<Sibling>;

// Returns the adapters' u side by side (rows, sum of their widths), which backward needs; empty without any.
Tensor forward_all(Ctx&, Siblings, Tensor x);
// As Linear::backward.
void backward_all(Ctx&, Sum& dx, Siblings, Tensor x, Tensor u);
// In the order that lays the adapters' matrices side by side.
void visit_all(Visitor&, std::initializer_list<Linear*>);

}  // namespace ft
