#include "engine/layers/linear.h"

#include "engine/layers/dense_change.h"
#include "engine/layers/fake_quantized.h"
#include "engine/layers/rescaled.h"
#include "engine/layers/rotated.h"
#include "engine/layers/sum.h"

namespace ft {
namespace {

// Returns the vector that a pass adds to every row of y: the Linear's bias, and the adapter's times alpha.
// Both together are in c.scratch; empty: there is none. In a pass without adapters the adapter's takes part
// with factor 0, so that the result has the bits of a fresh adapter's.
Tensor bias_in(Ctx& c, const Linear& l, float alpha) {
  const Tensor own = l.bias ? l.bias->value : Tensor{};
  const std::optional<OutputBias> added = l.adapter ? l.adapter->output_bias() : std::nullopt;
  if (!added) return own;
  const DType type = added->value.dtype;
  const std::int64_t n = added->value.numel();
  const Tensor one = c.scratch.take({1, 1}, type), both = c.scratch.take({1, n}, type);
  c.ops.run(op::Fill{one, 1});
  product(c.ops, both, {one, Trans::no, added->value.view({1, n}), Trans::no},
          c.adapters ? alpha * added->scale : 0, own);
  return both.view({n});
}

void add_bias_grad(Ctx& c, const OutputBias& b, Tensor dy) {
  Scope scratch(c.scratch);
  const Tensor ones = c.temporary(dy.rows(), 1), grad = b.grad.view({1, b.grad.numel()});
  c.ops.run(op::Fill{ones, 1});
  product(c.ops, grad, {ones, Trans::yes, dy, Trans::no}, b.scale, grad);
}

}  // namespace

void DownMatrix::forward(Ctx& c, Tensor u, Tensor x) const {
  product(c.ops, u, {x, Trans::no, a, Trans::yes}, scale);
}

void DownMatrix::backward(Ctx& c, Sum& dx, Tensor du, Tensor x) const {
  product(c.ops, grad, {du, Trans::yes, x, Trans::no}, 1, grad);
  if (dx) dx.add({du, Trans::no, a, Trans::no});
}

Linear make_linear(std::string name, std::int64_t in, std::int64_t out, bool bias, DType dtype) {
  Linear l;
  l.in = in;
  l.out = out;
  l.weight =
      std::make_unique<DenseWeight>(Parameter{.name = name + ".weight", .shape = {out, in}, .dtype = dtype});
  if (bias) l.bias = Parameter{.name = name + ".bias", .shape = {out}, .dtype = dtype, .decays = false};
  l.name = std::move(name);
  return l;
}

Linear make_wide_linear(std::string name, std::int64_t in, std::int64_t out) {
  Linear l = make_linear(std::move(name), in, out, false, DType::f32);
  static_cast<DenseWeight&>(*l.weight).parameter.wide = l.wide = true;
  return l;
}

Linear make_inputs_first_linear(std::string name, std::int64_t in, std::int64_t out, DType dtype) {
  Linear l = make_linear(std::move(name), in, out, true, dtype);
  Parameter p = std::move(static_cast<DenseWeight&>(*l.weight).parameter);
  p.shape = {in, out};
  l.weight = std::make_unique<DenseWeight>(std::move(p), true);
  return l;
}

void Linear::share(Cut how, TensorRank t, const Parts& parts) {
  if (t.size == 1) return;
  cut = how;
  std::int64_t& n = how == Cut::columns ? out : in;
  whole = n;
  first = t.first_of(whole);
  n = part_of_axis(whole, 1, t, parts).places;
  weight->cut(how == Cut::columns ? 0 : 1, t, parts);
  if (bias && how == Cut::columns) ft::cut(*bias, 0, t, parts);
  if (adapter) adapter->cut(how, t, parts);
}

Tensor Linear::narrow(Ctx& c, Tensor x) const {
  const Adapter* const own = adapter_in(c);
  if (!own) return {};
  c.ops.enter(name);
  Tensor u = c.saved.take({x.rows(), own->width()}, c.dtype);
  down(c, u, x);
  return u;
}

void Linear::down(Ctx& c, Tensor u, Tensor x) const {
  if (c.adapters)
    adapter->down(c, u, x);
  else
    c.ops.run(op::Fill{u, 0});
}

Tensor Linear::forward(Ctx& c, Tensor y, Tensor x, Tensor residual, float alpha) const {
  Tensor u = narrow(c, x);
  forward_with(c, y, x, u, residual, alpha);
  return u;
}

void Linear::forward_with(Ctx& c, Tensor y, Tensor x, Tensor u, Tensor residual, float alpha) const {
  c.ops.enter(name);
  if (const Adapter* const own = adapter_in(c); own && own->rescaling())
    return forward_rescaled(c, *this, y, x, u, residual, alpha);
  const bool parts = cut == Cut::rows, first_rank = !parts || c.tensor()->rank() == 0;
  Scope scratch(c.scratch);
  const Tensor added = bias_in(c, *this, alpha);
  Sum sum(c.ops, y, added ? (first_rank ? added : Tensor{}) : parts ? Tensor{} : residual, alpha);
  if (fake_format) {
    if (sum) sum.add(fake_quantized(c, *this, x, Trans::yes));
  } else {
    sum.add(weight->times(rotated(c, *this, x), Trans::yes));
    if (const Adapter* const own = adapter_in(c)) {
      own->up(sum, u);
      if (own->change()) add_change(c, *this, sum, x);
    }
  }
  sum.run();
  if (parts && y && !c.parts_stay) add_up(c, y, name);
  if (residual && (added || parts)) c.ops.run(op::Add{y, residual});
}

void Linear::backward(Ctx& c, Sum& dx, Tensor dy, Tensor x, Tensor u) const {
  Tensor du = adapter ? c.scratch.take(u.shape, c.dtype) : Tensor{};
  backward_with(c, dx, du, dy, x, u);
  if (adapter) down_grad(c, dx, du, x);
}

void Linear::down_grad(Ctx& c, Sum& dx, Tensor du, Tensor x) const {
  if (!fake_format) return adapter->down_grad(c, dx, du, x);
  Sum none(c.ops, {});
  adapter->down_grad(c, none, du, x);
}

void Linear::backward_with(Ctx& c, Sum& dx, Tensor du, Tensor dy, Tensor x, Tensor u) const {
  c.ops.enter(name);
  if (cut == Cut::columns) dx.among_ranks(c, name);
  if (adapter && adapter->rescaling()) return backward_rescaled(c, *this, dx, du, dy, x, u);
  if (adapter && adapter->rotation()) return backward_rotated(c, *this, dx, dy, x);
  weight->add_grad(c, dy, x);
  if (bias && bias->grad) c.ops.run(op::ColumnSums{bias->grad, dy});
  if (dx) dx.add(fake_format ? fake_quantized(c, *this, dy, Trans::no) : weight->times(dy, Trans::no));
  if (!adapter) return;
  if (const auto own = adapter->output_bias(); own && own->grad) add_bias_grad(c, *own, dy);
  adapter->up_grad(c, du, dy, u);
  if (adapter->change()) add_change_grad(c, *this, dx, dy, x);
}

void Linear::visit_own(Visitor& v) {
  v.linear(*this);
  weight->visit(v);
  if (bias) v.parameter(*bias);
}

void Linear::visit(Visitor& v) {
  visit_own(v);
  if (!adapter) return;
  adapter->visit_down(v);
  adapter->visit_up(v);
}

}  // namespace ft
