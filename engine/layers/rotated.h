// Linears whose adapter multiplies the input with a matrix first (OFT): y = (x R) W^T + b.
#pragma once
#include "engine/layers/linear.h"

namespace ft {

class InputRotation {
 public:
  virtual ~InputRotation() = default;
  virtual void rotate(Ctx&, Tensor y, Tensor x) const = 0;  // y = x R
  // dx = dy R^T; empty: not wanted. Adds to the gradients of its parameters.
  virtual void rotate_grad(Ctx&, Tensor dx, Tensor dy, Tensor x) const = 0;
};

// Returns x R in c.scratch; x itself if no adapter rotates in this pass.
Tensor rotated(Ctx&, const Linear&, Tensor x);
// Linear::backward_with for a Linear with such an adapter.
void backward_rotated(Ctx&, const Linear&, Sum& dx, Tensor dy, Tensor x);

}  // namespace ft
