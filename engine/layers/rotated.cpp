#include "engine/layers/rotated.h"

#include "engine/layers/sum.h"

namespace ft {

Tensor rotated(Ctx& c, const Linear& l, Tensor x) {
  if (!c.adapters || !l.adapter || !l.adapter->rotation()) return x;
  const Tensor y = c.temporary(x.rows(), x.cols());
  l.adapter->rotation()->rotate(c, y, x);
  return y;
}

void backward_rotated(Ctx& c, const Linear& l, Sum& dx, Tensor dy, Tensor x) {
  if (l.bias && l.bias->grad) c.ops.run(op::ColumnSums{l.bias->grad, dy});
  const Tensor through = dx ? c.temporary(x.rows(), x.cols()) : Tensor{};
  {
    Scope scratch(c.scratch);
    const Tensor turned = c.temporary(x.rows(), x.cols());  // the gradient of x R
    if (l.weight->trains()) {
      Scope input(c.scratch);
      l.weight->add_grad(c, dy, rotated(c, l, x));
    }
    Sum sum(c.ops, turned);
    sum.add(l.weight->times(dy, Trans::no));
    sum.run();
    l.adapter->rotation()->rotate_grad(c, through, turned, x);
  }
  dx.add(through);
}

}  // namespace ft
