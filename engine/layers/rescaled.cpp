#include "engine/layers/rescaled.h"

#include "engine/layers/sum.h"

namespace ft {
namespace {

// y = alpha d(x) V^T.
void unscaled(Ctx& c, const Linear& l, Tensor y, Tensor x, Tensor u, float alpha) {
  Sum sum(c.ops, y, {}, alpha);
  sum.add(l.weight->times(x, Trans::yes));
  l.adapter->up(sum, u);
  sum.run();
}

Tensor dropped(Ctx& c, const Rescaling& r, Tensor x) {
  if (!r.drops(c)) return x;
  Tensor y = c.temporary(x.rows(), x.cols());
  r.drop(c, y, x);
  return y;
}

}  // namespace

void forward_rescaled(Ctx& c, const Linear& l, Tensor y, Tensor x, Tensor u, Tensor residual, float alpha) {
  const Rescaling& r = *l.adapter->rescaling();
  Scope scratch(c.scratch);
  const Rescaling::Factors f = r.factors(c, *l.weight);
  const Tensor d = dropped(c, r, x);
  unscaled(c, l, y, d, u, alpha);
  c.ops.run(op::ScaleColumns{.y = y, .x = y, .scale = f.scale, .bias = l.bias ? l.bias->value : Tensor{}});
  if (r.drops(c)) {  // + (x - d(x)) W^T
    const Term kept = l.weight->times(x, Trans::yes), taken = l.weight->times(d, Trans::yes);
    c.ops.run(op::Products{.y = y, .terms = {&kept, 1}, .alpha = alpha, .c = y});
    c.ops.run(op::Products{.y = y, .terms = {&taken, 1}, .alpha = -alpha, .c = y});
  }
  if (residual) c.ops.run(op::Add{y, residual});
}

// Requires that dz, the gradient of d(x) V^T, stays valid until the caller has run dx.
void backward_rescaled(Ctx& c, const Linear& l, Sum& dx, Tensor du, Tensor dy, Tensor x, Tensor u) {
  const Rescaling& r = *l.adapter->rescaling();
  const Tensor dz = c.temporary(dy.rows(), dy.cols());
  {
    Scope scratch(c.scratch);
    const Rescaling::Factors f = r.factors(c, *l.weight);
    if (const Tensor dm = r.grad()) {
      const Tensor z = c.temporary(dy.rows(), dy.cols());
      unscaled(c, l, z, dropped(c, r, x), u, 1);
      c.ops.run(op::ColumnDots{.y = dm, .a = dy, .b = z, .scale = f.per_norm});
    }
    c.ops.run(op::ScaleColumns{.y = dz, .x = dy, .scale = f.scale});
  }
  if (l.bias && l.bias->grad) c.ops.run(op::ColumnSums{l.bias->grad, dy});
  if (dx && r.drops(c)) {  // dy W + d((dz - dy) W)
    const Tensor through = c.temporary(x.rows(), x.cols());
    const Term plus = l.weight->times(dz, Trans::no), minus = l.weight->times(dy, Trans::no);
    c.ops.run(op::Products{.y = through, .terms = {&plus, 1}});
    c.ops.run(op::Products{.y = through, .terms = {&minus, 1}, .alpha = -1, .c = through});
    r.drop(c, through, through);
    dx.add(minus);
    dx.add(through);
  } else if (dx) {
    dx.add(l.weight->times(dz, Trans::no));
  }
  l.adapter->up_grad(c, du, dz, u);
}

}  // namespace ft
