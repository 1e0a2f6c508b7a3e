#include "engine/model/per_layer_inputs.h"

#include <cmath>

#include "engine/layers/sum.h"
#include "engine/ops/ops.h"

namespace ft {
namespace {

const float kHalf = std::sqrt(0.5f);

}  // namespace

std::string PerLayerInputs::name() const { return std::string(parent_of(table.weight.name)); }

float PerLayerInputs::factor() const { return 1 / std::sqrt(static_cast<float>(projection.in)); }

void PerLayerInputs::visit(Visitor& v) {
  v.unit(name());
  table.visit(v);
  projection.visit(v);
  norm.visit(v);
}

void PerLayerInputs::add_unit(ParameterStore& store) { unit_ = store.add_unit(name(), parameters_of(*this)); }

PerLayerInputs::Saved PerLayerInputs::forward(Ctx& c, ParameterStore& store, Tensor x, Tensor ids) const {
  Use use(store, unit_, false);
  const Shape shape{ids.numel(), columns()};
  Saved s{.y = c.saved.take(shape, c.dtype), .raw = c.saved.take(shape, c.dtype)};
  s.statistics = norm.take_statistics(c.saved, shape.numel() / norm.width());
  s.u = projection.forward(c, s.raw, x, {}, factor());
  norm.forward(c, by_layer(s.y), s.statistics, by_layer(s.raw));
  Scope scratch(c.scratch);
  const Tensor rows = c.scratch.take(shape, c.dtype);
  table.forward(c, rows, ids);
  c.ops.enter(name());
  c.ops.run(op::Add{s.y, rows});
  c.ops.run(op::Multiply{.y = s.y, .x = s.y, .factor = kHalf});
  return s;
}

void PerLayerInputs::backward(Ctx& c, ParameterStore& store, Tensor dx, Tensor d, Tensor x, Tensor ids,
                              const Saved& s) const {
  Use use(store, unit_, true);
  Scope scratch(c.scratch);
  const Tensor draw = c.scratch.take(s.raw.shape, c.dtype);
  c.ops.enter(name());
  c.ops.run(op::Multiply{.y = d, .x = d, .factor = kHalf});
  c.ops.run(op::Fill{draw, 0});
  norm.backward(c, by_layer(draw), by_layer(d), by_layer(s.raw), s.statistics);
  c.ops.run(op::Multiply{.y = draw, .x = draw, .factor = factor()});
  Sum sum(c.ops, dx, dx);
  projection.backward(c, sum, draw, x, s.u);
  sum.run();
  table.backward(c, d, ids);
  store.reduce(unit_, true);
}

}  // namespace ft
