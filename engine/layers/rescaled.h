// Linears whose outputs are rescaled by learnt magnitudes (DoRA, Liu et al. 2024), as PEFT computes them.
// With V = W + what the adapter adds to it, n the norms of V's rows and m the magnitudes, d dropout:
//   y = x W^T + b + (m / n - 1) d(x) W^T + m / n (the adapter's part, of d(x)).
// n is a constant in the backward pass: dm = 1 / n sum of dy d(x) V^T, and the rest is that of a Linear whose
// outputs are scaled. d(x) V^T is computed again there.
#pragma once
#include "engine/layers/linear.h"

namespace ft {

// What an adapter that rescales has besides.
class Rescaling {
 public:
  virtual ~Rescaling() = default;
  struct Factors {
    Tensor scale, per_norm;  // (out) f32: m / n and 1 / n
  };
  virtual Factors factors(Ctx&, const Weight&) const = 0;  // in c.scratch
  virtual Tensor grad() const = 0;                         // of m, (out) f32; empty: frozen
  virtual bool drops(const Ctx&) const = 0;
  virtual void drop(Ctx&, Tensor y, Tensor x) const = 0;  // y = d(x); of a gradient the same
};

// As Linear::forward_with and backward_with, for a Linear with such an adapter.
void forward_rescaled(Ctx&, const Linear&, Tensor y, Tensor x, Tensor u, Tensor residual, float alpha);
void backward_rescaled(Ctx&, const Linear&, Sum& dx, Tensor du, Tensor dy, Tensor x, Tensor u);

}  // namespace ft
