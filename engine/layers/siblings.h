// Linears over the same input: q, k and v, or gate and up. If their adapters' matrices are contiguous in
// memory, one product serves all of them, in forward and for their gradients: the input is read once. Reading
// it takes most of the time of a narrow product, so the product should be as wide as possible.
#pragma once
#include <initializer_list>

#include "engine/layers/linear.h"

namespace ft {

struct Sibling {
  const Linear& linear;
  Tensor y;  // (rows, out); in backward its gradient
};
using Siblings = std::initializer_list<Sibling>;

// Returns the adapters' u, one after another (rows, sum of their widths), which backward needs; empty without
// adapters.
Tensor forward_all(Ctx&, Siblings, Tensor x);
// Does what Linear::backward does, for all of them.
void backward_all(Ctx&, Sum& dx, Siblings, Tensor x, Tensor u);
// Visits in the order that makes the adapters' matrices contiguous.
void visit_all(Visitor&, std::initializer_list<Linear*>);

}  // namespace ft
