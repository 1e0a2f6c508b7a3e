#include "engine/nn/linear.h"

namespace ft {

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

Tensor Linear::forward(Ctx& c, Tensor y, Tensor x, Tensor residual, float alpha) const {
  Scope scratch(c.scratch);
  c.ops.enter(name);
  const Tensor shift = bias ? bias->value : Tensor{};
  Sum sum(c.ops, y, bias ? shift : residual, alpha);
  sum.add(weight->times(x, Trans::yes));
  const Tensor saved = adapter ? adapter->forward(c, sum, x) : Tensor{};
  sum.run();
  if (residual && bias) c.ops.add(y, residual);
  return saved;
}

void Linear::backward(Ctx& c, Sum& dx, Tensor dy, Tensor x, Tensor saved) const {
  c.ops.enter(name);
  if (Tensor dw = weight->grad()) product(c.ops, dw, {dy, Trans::yes, x, Trans::no}, 1, dw);
  if (bias && bias->grad) c.ops.column_sums(bias->grad, dy);
  if (dx) dx.add(weight->times(dy, Trans::no));
  if (adapter) adapter->backward(c, dx, dy, x, saved);
}

void Linear::visit(Visitor& v) {
  v.linear(*this);
  weight->visit(v);
  if (bias) v.parameter(*bias);
  if (adapter) adapter->visit(v);
}

}  // namespace ft
