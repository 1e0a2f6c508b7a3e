#include "engine/layers/rms_norm.h"

#include "engine/ops/ops.h"

namespace ft {

void RmsNorm::forward(Ctx& c, Tensor y, Tensor rstd, Tensor x) const {
  c.ops.enter(weight.name);
  c.ops.run(op::RmsNorm{.y = y, .rstd = rstd, .x = x, .w = weight.value, .eps = eps, .offset = offset});
}

void RmsNorm::backward(Ctx& c, Tensor dx, Tensor dy, Tensor x, Tensor rstd) const {
  c.ops.enter(weight.name);
  if (dx || weight.grad)
    c.ops.run(op::RmsNormGrad{
        .dx = dx, .dw = weight.grad, .dy = dy, .x = x, .w = weight.value, .rstd = rstd, .offset = offset});
}

}  // namespace ft
