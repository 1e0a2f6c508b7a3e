#include "engine/layers/attention/value_norm.h"

#include "engine/ops/ops.h"

namespace ft {

// Returns a scale of ones, in c.scratch.
Tensor ValueNorm::ones(Ctx& c) const {
  const Tensor w = c.scratch.take({width}, c.dtype);
  c.ops.run(op::Fill{w, 1});
  return w;
}

void ValueNorm::forward(Ctx& c, Tensor y, Tensor statistics, Tensor x) const {
  Scope scratch(c.scratch);
  c.ops.run(op::RmsNorm{.y = by_head(y), .rstd = statistics, .x = by_head(x), .w = ones(c), .eps = eps});
}

void ValueNorm::backward(Ctx& c, Tensor dx, Tensor dy, Tensor x, Tensor statistics) const {
  Scope scratch(c.scratch);
  c.ops.run(op::RmsNormGrad{
      .dx = by_head(dx), .dy = by_head(dy), .x = by_head(x), .w = ones(c), .rstd = statistics});
}

}  // namespace ft
