#include "engine/nn/mlp.h"

namespace ft {

GatedMlp::Saved GatedMlp::forward(Ctx& c, Tensor y, Tensor x, Tensor residual) const {
  const std::int64_t rows = x.rows(), F = gate_proj.out;
  Saved s;
  s.gate = c.save(rows, F);
  s.up = c.save(rows, F);
  s.adapter[0] = gate_proj.forward(c, s.gate, x);
  s.adapter[1] = up_proj.forward(c, s.up, x);
  Scope scratch(c.scratch);
  Tensor act = c.temporary(rows, F);
  c.ops.gated(activation, act, s.gate, s.up);
  s.adapter[2] = down_proj.forward(c, y, act, residual);
  return s;
}

void GatedMlp::backward(Ctx& c, Tensor dx, Tensor dy, Tensor x, const Saved& s) const {
  {
    Scope scratch(c.scratch);
    Tensor dact = c.temporary(dy.rows(), gate_proj.out), act;
    if (down_proj.reads_input()) {  // made again: cheaper than keeping it
      act = c.temporary(dy.rows(), gate_proj.out);
      c.ops.gated(activation, act, s.gate, s.up);
    }
    Sum sum(c.ops, dact);
    down_proj.backward(c, sum, dy, act, s.adapter[2]);
    sum.run();
    c.ops.gated_grad(activation, s.gate, s.up, dact, s.gate, s.up);
  }
  Scope scratch(c.scratch);
  Sum sum(c.ops, dx);
  gate_proj.backward(c, sum, s.gate, x, s.adapter[0]);
  up_proj.backward(c, sum, s.up, x, s.adapter[1]);
  sum.run();
}

}  // namespace ft
