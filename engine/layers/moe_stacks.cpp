// The parts of Moe that differ for stacked matrices: the gates, and the bias of down.
#include "engine/layers/moe.h"

namespace ft {

void Moe::check() const {
  require(experts.empty() || experts.front().paired() == bool(stacks),
          "experts with a linear for gates and ups are in stacks");
  require(!gate.wide || !scales, "a router with scales computes in the pass's type");
  require(!stacks || activation == Activation::silu, "experts in stacks have op::GatedPairs' activation");
}

Tensor Moe::act(Ctx& c, const Saved& s) const {
  const Tensor act = inside(c, inner(), s.routed);
  c.ops.enter(name);
  if (stacks)
    c.ops.run(op::GatedPairs{.y = act, .x = s.gate, .limit = stacks->limit, .steepness = stacks->steepness});
  else
    c.ops.run(op::Gated{.f = activation, .y = act, .gate = s.gate, .up = s.up});
  return act;
}

void Moe::add_down_bias(Ctx& c, Tensor made, const Routed& r) const {
  Scope scratch(c.scratch);
  const Tensor weights = inside(c, 1, r);
  const ExpertStack& stack = stacks->down;
  c.ops.enter(name);
  c.ops.run(op::Cast{.y = weights, .x = r.row_weights});
  each_expert(c, r, down, Pass::forth, [&](const Expert& e, std::int64_t first, std::int64_t end) {
    const Tensor bias = stack.bias_of(stack.biases.value, &e - experts.data()), own = made.slice(first, end);
    product(c.ops, own, {weights.slice(first, end), Trans::no, bias.view({1, bias.numel()}), Trans::no}, 1,
            own);
  });
}

void Moe::down_bias_back(Ctx& c, Tensor dw, Tensor dz, const Routed& r) const {
  Scope scratch(c.scratch);
  const Tensor weights = inside(c, 1, r);
  const ExpertStack& stack = stacks->down;
  const auto row = [](const Tensor& bias) { return bias.view({1, bias.numel()}); };
  c.ops.enter(name);
  c.ops.run(op::Cast{.y = weights, .x = r.row_weights});
  each_expert(c, r, down, Pass::forth, [&](const Expert& e, std::int64_t first, std::int64_t end) {
    const std::int64_t number = &e - experts.data();
    const Tensor own = dz.slice(first, end), own_dw = dw.slice(first, end);
    product(c.ops, own_dw, {own, Trans::no, row(stack.bias_of(stack.biases.value, number)), Trans::yes}, 1,
            own_dw);
    if (!stack.biases.grad) return;
    const Tensor grad = row(stack.bias_of(stack.biases.grad, number));
    product(c.ops, grad, {weights.slice(first, end), Trans::yes, own, Trans::no}, 1, grad);
  });
}

}  // namespace ft
