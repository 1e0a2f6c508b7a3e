// Linears whose adapter adds a matrix of the weight's size, made anew in each pass: y = x W^T + d(x) V^T + b,
// where d is dropout. It costs a product more than the Linear alone, and memory for V and its gradient.
#pragma once
#include "engine/layers/linear.h"

namespace ft {

class DenseChange {
 public:
  virtual ~DenseChange() = default;
  // Returns V (out, in) in c.scratch.
  virtual Tensor matrix(Ctx&, const Weight&) const = 0;
  virtual bool trains() const = 0;
  // Adds to the gradients of its parameters. dv (out, in) f32: the gradient of V.
  virtual void add_grad(Ctx&, const Weight&, Tensor dv) const = 0;
  virtual bool drops(const Ctx&) const = 0;
  virtual void drop(Ctx&, Tensor y, Tensor x) const = 0;  // y = d(x); the same for a gradient
};

// The adapter's part of Linear::forward_with and backward_with. `sum` and `dx` run within the caller's
// scratch Scope.
void add_change(Ctx&, const Linear&, Sum& sum, Tensor x);
void add_change_grad(Ctx&, const Linear&, Sum& dx, Tensor dy, Tensor x);

}  // namespace ft
