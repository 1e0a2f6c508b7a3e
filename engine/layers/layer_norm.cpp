#include "engine/layers/layer_norm.h"

#include "engine/ops/ops.h"

namespace ft {

void LayerNorm::forward(Ctx& c, Tensor y, Tensor statistics, Tensor x) const {
  c.ops.enter(weight.name);
  c.ops.run(op::LayerNorm{.y = y,
                          .mean = statistics.slice(0, 1),
                          .rstd = statistics.slice(1, 2),
                          .x = x,
                          .w = weight.value,
                          .b = bias.value,
                          .eps = eps});
}

void LayerNorm::backward(Ctx& c, Tensor dx, Tensor dy, Tensor x, Tensor statistics) const {
  c.ops.enter(weight.name);
  if (dx || trains())
    c.ops.run(op::LayerNormGrad{.dx = dx,
                                .dw = weight.grad,
                                .db = bias.grad,
                                .dy = dy,
                                .x = x,
                                .w = weight.value,
                                .mean = statistics.slice(0, 1),
                                .rstd = statistics.slice(1, 2)});
}

}  // namespace ft
