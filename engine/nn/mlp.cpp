#include "engine/nn/mlp.h"

namespace ft {

Tensor Mlp::inner(Ctx& c, const Saved& s) const {
  Tensor act = c.temporary(s.gate.rows(), s.gate.cols());
  c.ops.gated(activation, act, s.gate, s.up);
  dropout.apply(c, act, down_proj.name);
  return act;
}

Mlp::Saved Mlp::forward(Ctx& c, Tensor y, Tensor x, Tensor residual) const {
  const std::int64_t rows = x.rows(), F = gate_proj.out;
  Saved s;
  s.gate = c.save(rows, F);
  if (up_proj) s.up = c.save(rows, F);
  s.u =
      up_proj ? forward_all(c, {{gate_proj, s.gate}, {*up_proj, s.up}}, x) : gate_proj.forward(c, s.gate, x);
  Scope scratch(c.scratch);
  s.down_u = down_proj.forward(c, y, inner(c, s), residual);
  return s;
}

void Mlp::backward(Ctx& c, Tensor dx, Tensor dy, Tensor x, const Saved& s) const {
  {
    Scope scratch(c.scratch);
    Tensor dact = c.temporary(dy.rows(), gate_proj.out), act;
    if (down_proj.reads_input()) act = inner(c, s);  // made again: cheaper than keeping it
    Sum sum(c.ops, dact);
    down_proj.backward(c, sum, dy, act, s.down_u);
    sum.run();
    dropout.apply(c, dact, down_proj.name);
    c.ops.gated_grad(activation, s.gate, s.up, dact, s.gate, s.up);
  }
  Scope scratch(c.scratch);
  Sum sum(c.ops, dx);
  if (up_proj)
    backward_all(c, sum, {{gate_proj, s.gate}, {*up_proj, s.up}}, x, s.u);
  else
    gate_proj.backward(c, sum, s.gate, x, s.u);
  sum.run();
}

void Mlp::visit(Visitor& v) {
  if (up_proj)
    visit_all(v, {&gate_proj, &*up_proj});
  else
    gate_proj.visit(v);
  down_proj.visit(v);
}

}  // namespace ft
