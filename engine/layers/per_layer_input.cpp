#include "engine/layers/per_layer_input.h"

#include "engine/layers/sum.h"

namespace ft {

// Returns projection's input, in c.scratch.
Tensor PerLayerInput::inner(Ctx& c, Tensor gate_of, Tensor input) const {
  const Tensor y = c.temporary(gate_of.rows(), gate_of.cols());
  c.ops.enter(name());
  c.ops.run(op::Gated{.f = activation, .y = y, .gate = gate_of, .up = input});
  return y;
}

PerLayerInput::Saved PerLayerInput::forward(Ctx& c, Tensor y, Tensor x, Tensor residual, Tensor input) const {
  Saved s;
  s.gate = c.save(x.rows(), projection.in);
  s.u = gate.forward(c, s.gate, x);
  Scope scratch(c.scratch);
  const Tensor mixed = inner(c, s.gate, input);
  s.down_u = y ? projection.forward(c, y, mixed, residual) : projection.narrow(c, mixed);
  return s;
}

void PerLayerInput::backward(Ctx& c, Tensor dx, Tensor dy, Tensor x, Tensor input, Tensor dinput,
                             const Saved& s) const {
  Scope scratch(c.scratch);
  const Tensor mixed = projection.reads_input() ? inner(c, s.gate, input) : Tensor{};
  const Tensor d = c.temporary(dy.rows(), projection.in);
  const Tensor own = dinput ? dinput : c.temporary(dy.rows(), projection.in);
  {
    Scope inside(c.scratch);
    Sum sum(c.ops, d);
    projection.backward(c, sum, dy, mixed, s.down_u);
    sum.run();
  }
  c.ops.enter(name());
  c.ops.run(
      op::GatedGrad{.f = activation, .dgate = s.gate, .dup = own, .dy = d, .gate = s.gate, .up = input});
  Sum sum(c.ops, dx);
  gate.backward(c, sum, s.gate, x, s.u);
  sum.run();
}

}  // namespace ft
