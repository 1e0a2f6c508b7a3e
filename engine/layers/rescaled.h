// Linears whose outputs are rescaled by learnt magnitudes (DoRA, Liu et al. 2024), as PEFT computes them.
// With V = W + the matrix that the adapter adds, n the norms of V's rows, m the magnitudes and d dropout:
//   y = x W^T + b + (m / n - 1) d(x) W^T + m / n (the adapter's part, of d(x)).
// Backward treats n as a constant: dm = 1 / n sum of dy d(x) V^T, and the other gradients equal those for a
// Linear with scaled outputs. It computes d(x) V^T again.
#pragma once
#include "engine/layers/linear.h"

namespace ft {

// The scaling of an adapter that rescales.
class Rescaling {
 public:
  virtual ~Rescaling() = default;
  struct Factors {
    Tensor scale, per_norm;  // (out) f32: m / n and 1 / n
  };
  virtual Factors factors(Ctx&, const Weight&) const = 0;  // in c.scratch
  virtual Tensor grad() const = 0;                         // of m, (out) f32; empty: frozen
  virtual bool drops(const Ctx&) const = 0;
  virtual void drop(Ctx&, Tensor y, Tensor x) const = 0;  // y = d(x); the same for a gradient
};

// Linear::forward_with and backward_with for a Linear with such an adapter.
void forward_rescaled(Ctx&, const Linear&, Tensor y, Tensor x, Tensor u, Tensor residual, float alpha);
void backward_rescaled(Ctx&, const Linear&, Sum& dx, Tensor du, Tensor dy, Tensor x, Tensor u);

}  // namespace ft
