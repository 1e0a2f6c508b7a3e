// The logits of a mixture's router: plain, in f32, or with a norm and scales.
#include <cmath>

#include "engine/layers/moe.h"
#include "engine/layers/sum.h"

namespace ft {
namespace {

// Returns the pass as a wide linear sees it.
Ctx wide_pass(const Ctx& c) {
  Ctx own = c;
  own.dtype = DType::f32;
  return own;
}

// Returns x in f32, in c.scratch.
Tensor widened(Ctx& c, Tensor x) {
  const Tensor y = c.scratch.take(x.shape, DType::f32);
  c.ops.run(op::Cast{.y = y, .x = x});
  return y;
}

}  // namespace

void Moe::score(Ctx& c, Routed& r, Tensor logits, Tensor x) const {
  if (!scales && (!gate.wide || c.dtype == DType::f32)) {
    r.u = gate.forward(c, logits, x);
    return;
  }
  Scope scratch(c.scratch);
  if (gate.wide) {
    Ctx own = wide_pass(c);
    r.u = gate.forward(own, logits, widened(c, x));
    return;
  }
  const Tensor n = c.temporary(x.rows(), x.cols());
  scales->norm.forward(c, n, r.statistics, x);
  r.u = gate.forward(c, logits, n, {}, 1 / std::sqrt(static_cast<float>(x.cols())));
}

// dx += the gradient of x.
void Moe::score_back(Ctx& c, Tensor dx, Tensor dlogits, Tensor x, const Routed& r) const {
  if (!scales && (!gate.wide || c.dtype == DType::f32)) {
    Sum sum(c.ops, dx, dx);
    gate.backward(c, sum, dlogits, x, r.u);
    return sum.run();
  }
  Scope scratch(c.scratch);
  if (gate.wide) {
    Ctx own = wide_pass(c);
    const Tensor own_dx = dx ? c.scratch.take(dx.shape, DType::f32) : Tensor{};
    Sum sum(c.ops, own_dx);
    gate.backward(own, sum, dlogits, widened(c, x), r.u);
    sum.run();
    if (dx) c.ops.run(op::Add{dx, own_dx});
    return;
  }
  const Tensor n = c.temporary(x.rows(), x.cols()), dn = c.temporary(x.rows(), x.cols());
  scales->norm.forward(c, n, r.statistics, x);
  c.ops.run(op::Multiply{.y = dlogits, .x = dlogits, .factor = 1 / std::sqrt(static_cast<float>(x.cols()))});
  Sum sum(c.ops, dn);
  gate.backward(c, sum, dlogits, n, r.u);
  sum.run();
  scales->norm.backward(c, dx, dn, x, r.statistics);
}

// Views the choices as rows of one number each.
void Moe::scale_choices(Ctx& c, const Routed& r) const {
  const auto rows = [&](const Tensor& t) { return t.view({t.numel(), 1}); };
  c.ops.run(op::Embedding{.y = r.factors,
                          .ids = r.ids.view({r.ids.numel()}),
                          .table = scales->experts.value.view({std::ssize(experts), 1})});
  c.ops.run(
      op::ScaleRows{.y = rows(r.weights), .x = rows(r.chosen), .w = r.factors.view({r.factors.numel()})});
}

void Moe::scale_choices_back(Ctx& c, Tensor dweights, const Routed& r) const {
  Scope scratch(c.scratch);
  const std::int64_t n = r.ids.numel();
  const Tensor d = dweights.view({n, 1}), dfactors = c.scratch.take({n}, DType::f32);
  c.ops.run(op::ScaleRowsGrad{
      .dx = d, .dw = dfactors, .dy = d, .x = r.chosen.view({n, 1}), .w = r.factors.view({n})});
  const Tensor grad = scales->experts.grad;
  if (grad)
    c.ops.run(op::EmbeddingGrad{
        .dtable = grad.view({std::ssize(experts), 1}), .ids = r.ids.view({n}), .dy = dfactors.view({n, 1})});
}

}  // namespace ft
