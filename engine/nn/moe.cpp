#include "engine/nn/moe.h"

#include <algorithm>

namespace ft {
namespace {

std::int64_t adapter_width(const Ctx& c, const Linear& l) {
  const Adapter* const own = l.adapter_in(c);
  return own ? own->width() : 0;
}
// The widest of the experts' adapters: they may differ.
std::int64_t widest(const Ctx& c, const std::vector<Expert>& experts, Linear Expert::*l) {
  std::int64_t width = 0;
  for (const Expert& e : experts) width = std::max(width, adapter_width(c, e.*l));
  return width;
}

Tensor take(Arena& arena, Shape shape, DType type) {
  return shape.numel() > 0 ? arena.take(shape, type) : Tensor{};
}

// Columns of an adapter among those that are taken together.
Tensor part(const Ctx& c, const Tensor& u, std::int64_t rows, std::int64_t end, std::int64_t column,
            const Linear& l) {
  const std::int64_t width = adapter_width(c, l);
  return width > 0 ? u.slice(rows, end).columns(column, column + width) : Tensor{};
}

void begin(Ctx& c, const std::unique_ptr<ExpertsAdapter>& adapter, bool backward) {
  if (adapter) adapter->begin(c, backward);
}
void finish(Ctx& c, const std::unique_ptr<ExpertsAdapter>& adapter) {
  if (adapter) adapter->finish(c);
}

void forward(Ctx& c, const Linear& l, Tensor y, Tensor x, Tensor u) {
  c.ops.enter(l.name);
  if (l.adapter_in(c)) l.down(c, u, x);
  l.forward_with(c, y, x, u);
}
void backward(Ctx& c, const Linear& l, Sum& dx, Tensor du, Tensor dy, Tensor x, Tensor u) {
  l.backward_with(c, dx, du, dy, x, u);
  if (l.adapter) l.adapter->down_grad(c, dx, du, x);
}

}  // namespace

void Moe::each_expert(const Routed& r,
                      const std::function<void(const Expert&, std::int64_t, std::int64_t)>& f) const {
  for (std::size_t e = 0; e < experts.size(); ++e)
    if (r.starts[e] < r.starts[e + 1]) f(experts[e], r.starts[e], r.starts[e + 1]);
}

// The number of rows of each expert is read back: products are given to the device one by one. Operations
// that only count leave the numbers as they are, and rows are then shared out evenly, which costs the same.
Moe::Routed Moe::route(Ctx& c, Tensor x, const RouterStatistics* routers) const {
  const std::int64_t tokens = x.rows(), count = std::ssize(experts), rows = tokens * choices;
  Routed r;
  r.p = c.saved.take({tokens, count}, DType::f32);
  r.weights = c.saved.take({tokens, choices}, DType::f32);
  r.ids = c.saved.take({tokens, choices}, DType::i32);
  r.order = c.saved.take({rows}, DType::i32);
  r.tokens = c.saved.take({rows}, DType::i32);
  r.places = c.saved.take({tokens, choices}, DType::i32);
  r.row_weights = c.saved.take({rows, 1}, DType::f32);
  const Tensor own = c.saved.take({count + 1}, DType::i32);
  Scope scratch(c.scratch);
  const Tensor logits = c.temporary(tokens, count);
  r.u = gate.forward(c, logits, x);
  c.ops.enter(gate.name);
  c.ops.run(
      op::Route{.weights = r.weights, .ids = r.ids, .p = r.p, .logits = logits, .normalised = normalised});
  const Tensor starts = routers ? routers->starts.elements(layer * (count + 1), count + 1) : own;
  c.ops.run(op::GroupRows{
      .order = r.order, .tokens = r.tokens, .places = r.places, .starts = starts, .ids = r.ids});
  c.ops.run(op::GatherRows{.y = r.row_weights, .x = r.weights.view({rows, 1}), .rows = r.order});
  if (routers) {
    const Tensor sums = routers->sums.elements(layer * count, count);
    c.ops.run(op::Fill{sums, 0});
    c.ops.run(op::ColumnSums{sums, r.p});
    r.slope = routers->slope;
  }
  for (std::int64_t e = 0; e <= count; ++e) r.starts.push_back(static_cast<std::int32_t>(rows * e / count));
  c.ops.download(r.starts.data(), starts);
  return r;
}

Tensor Moe::sorted(Ctx& c, Tensor x, const Routed& r) const {
  const Tensor y = c.temporary(r.tokens.numel(), x.cols());
  c.ops.run(op::GatherRows{.y = y, .x = x, .rows = r.tokens});
  return y;
}

// What backward needs, but for what the shared expert makes.
Moe::Saved Moe::widen(Ctx& c, Tensor x, const RouterStatistics* routers) const {
  Saved s;
  s.routed = route(c, x, routers);
  const std::int64_t rows = s.routed.tokens.numel(), wide = widest(c, experts, &Expert::gate_proj);
  s.gate = c.save(rows, inner());
  s.up = c.save(rows, inner());
  s.u = take(c.saved, {rows, wide + widest(c, experts, &Expert::up_proj)}, c.dtype);
  Scope scratch(c.scratch);
  const Tensor in = sorted(c, x, s.routed);
  begin(c, gate_up_adapter, false);
  each_expert(s.routed, [&](const Expert& e, std::int64_t first, std::int64_t end) {
    const Tensor own = in.slice(first, end);
    ft::forward(c, e.gate_proj, s.gate.slice(first, end), own, part(c, s.u, first, end, 0, e.gate_proj));
    ft::forward(c, e.up_proj, s.up.slice(first, end), own, part(c, s.u, first, end, wide, e.up_proj));
  });
  return s;
}

void Moe::narrow(Ctx& c, Tensor y, Tensor x, Tensor residual, const Saved& s) const {
  Scope scratch(c.scratch);
  const std::int64_t rows = s.gate.rows();
  const Tensor act = c.temporary(rows, inner()), z = c.temporary(rows, x.cols());
  const Tensor u = take(c.scratch, {rows, widest(c, experts, &Expert::down_proj)}, c.dtype);
  c.ops.enter(name);
  c.ops.run(op::Gated{.f = activation, .y = act, .gate = s.gate, .up = s.up});
  c.ops.run(op::ScaleRows{.y = act, .x = act, .w = s.routed.row_weights});
  begin(c, down_adapter, false);
  each_expert(s.routed, [&](const Expert& e, std::int64_t first, std::int64_t end) {
    ft::forward(c, e.down_proj, z.slice(first, end), act.slice(first, end),
                part(c, u, first, end, 0, e.down_proj));
  });
  c.ops.enter(name);
  c.ops.run(op::GatherSum{.y = y, .x = z, .rows = s.routed.places, .c = residual});
}

// y += sigmoid(gate x) mlp(x)
void Moe::add_shared(Ctx& c, Tensor y, const Saved& s) const {
  Scope scratch(c.scratch);
  const Tensor scaled = c.temporary(y.rows(), y.cols());
  c.ops.enter(shared->gate.name);
  c.ops.run(op::ScaleRows{.y = scaled, .x = s.shared_y, .w = s.shared_logits, .sigmoid = true});
  c.ops.run(op::Add{y, scaled});
}

Moe::Saved Moe::forward(Ctx& c, Tensor y, Tensor x, Tensor residual, const RouterStatistics* routers,
                        Keep keep) const {
  const std::int64_t mark = c.saved.mark();
  Saved s = widen(c, x, routers);
  if (shared) {
    s.shared_y = c.save(x.rows(), x.cols());
    s.shared_logits = c.saved.take({x.rows()}, DType::f32);
    s.shared = shared->mlp.forward(c, s.shared_y, x, {}, keep);
    Scope scratch(c.scratch);
    const Tensor logits = c.scratch.take({x.rows(), 1}, c.dtype);
    s.shared_u = shared->gate.forward(c, logits, x);
    c.ops.run(op::Cast{.y = s.shared_logits.view({x.rows(), 1}), .x = logits});
  }
  if (y) {
    narrow(c, y, x, residual, s);
    if (shared) add_shared(c, y, s);
  }
  s.kept = keep == Keep::all;
  if (s.kept) return s;
  c.saved.rewind(mark);
  return {};
}

// From the gradient of the sum to those of gate and up, in their place, and of the rows' weights.
void Moe::down_back(Ctx& c, Tensor dw, Tensor dy, const Saved& s) const {
  Scope scratch(c.scratch);
  const std::int64_t rows = s.gate.rows(), width = widest(c, experts, &Expert::down_proj);
  const Tensor dz = sorted(c, dy, s.routed), act = c.temporary(rows, inner());
  const Tensor in = c.temporary(rows, inner()), din = c.temporary(rows, inner());
  const Tensor u = take(c.scratch, {rows, width}, c.dtype), du = take(c.scratch, {rows, width}, c.dtype);
  c.ops.enter(name);
  c.ops.run(op::Gated{.f = activation, .y = act, .gate = s.gate, .up = s.up});
  c.ops.run(op::ScaleRows{.y = in, .x = act, .w = s.routed.row_weights});
  begin(c, down_adapter, true);
  each_expert(s.routed, [&](const Expert& e, std::int64_t first, std::int64_t end) {
    const Linear& l = e.down_proj;
    const Tensor own = in.slice(first, end), own_u = part(c, u, first, end, 0, l);
    c.ops.enter(l.name);
    if (l.adapter) l.adapter->down(c, own_u, own);  // made again: cheaper than keeping it
    Sum sum(c.ops, din.slice(first, end));
    ft::backward(c, l, sum, part(c, du, first, end, 0, l), dz.slice(first, end), own, own_u);
    sum.run();
  });
  finish(c, down_adapter);
  c.ops.enter(name);
  c.ops.run(op::ScaleRowsGrad{.dx = din, .dw = dw, .dy = din, .x = act, .w = s.routed.row_weights});
  c.ops.run(
      op::GatedGrad{.f = activation, .dgate = s.gate, .dup = s.up, .dy = din, .gate = s.gate, .up = s.up});
}

// dx = the gradient by way of gate and up, whose own are in their place.
void Moe::wide_back(Ctx& c, Tensor dx, Tensor x, const Saved& s) const {
  Scope scratch(c.scratch);
  const std::int64_t rows = s.gate.rows(), wide = widest(c, experts, &Expert::gate_proj);
  const Tensor in = sorted(c, x, s.routed), din = c.temporary(rows, x.cols());
  const Tensor du = s.u ? c.scratch.take(s.u.shape, c.dtype) : Tensor{};
  begin(c, gate_up_adapter, true);
  each_expert(s.routed, [&](const Expert& e, std::int64_t first, std::int64_t end) {
    const Tensor own = in.slice(first, end);
    Sum sum(c.ops, dx ? din.slice(first, end) : Tensor{});
    const auto back = [&](const Linear& l, const Tensor& dy, std::int64_t at) {
      ft::backward(c, l, sum, part(c, du, first, end, at, l), dy.slice(first, end), own,
                   part(c, s.u, first, end, at, l));
    };
    back(e.gate_proj, s.gate, 0);
    back(e.up_proj, s.up, wide);
    sum.run();
  });
  finish(c, gate_up_adapter);
  c.ops.enter(name);
  if (dx) c.ops.run(op::GatherSum{.y = dx, .x = din, .rows = s.routed.places});
}

// dx += the gradient by way of the router. dw: of the rows' weights (R, 1).
void Moe::route_back(Ctx& c, Tensor dx, Tensor dw, Tensor x, const Routed& r) const {
  Scope scratch(c.scratch);
  const Tensor dweights = c.scratch.take(r.weights.shape, DType::f32),
               dlogits = c.temporary(r.p.rows(), r.p.cols());
  c.ops.enter(gate.name);
  c.ops.run(op::ScatterRows{.y = dweights.view({r.order.numel(), 1}), .x = dw, .rows = r.order});
  c.ops.run(op::RouteGrad{.dlogits = dlogits,
                          .dweights = dweights,
                          .ids = r.ids,
                          .p = r.p,
                          .slope = r.slope,
                          .normalised = normalised});
  Sum sum(c.ops, dx, dx);
  gate.backward(c, sum, dlogits, x, r.u);
  sum.run();
}

void Moe::shared_back(Ctx& c, Tensor dx, Tensor dy, Tensor x, const Saved& s) const {
  Scope scratch(c.scratch);
  const Tensor dz = c.temporary(dy.rows(), dy.cols());
  const Tensor own = dx ? c.temporary(dx.rows(), dx.cols()) : Tensor{};
  const Tensor dw = c.scratch.take({dy.rows()}, DType::f32),
               dlogits = c.scratch.take({dy.rows(), 1}, c.dtype);
  c.ops.enter(shared->gate.name);
  c.ops.run(op::ScaleRowsGrad{
      .dx = dz, .dw = dw, .dy = dy, .x = s.shared_y, .w = s.shared_logits, .sigmoid = true});
  c.ops.run(op::Cast{.y = dlogits, .x = dw.view({dy.rows(), 1})});
  shared->mlp.backward(c, own, dz, x, s.shared);
  if (dx) c.ops.run(op::Add{dx, own});
  Sum sum(c.ops, dx, dx);
  shared->gate.backward(c, sum, dlogits, x, s.shared_u);
  sum.run();
}

void Moe::backward(Ctx& c, Tensor dx, Tensor dy, Tensor x, const Saved& saved,
                   const RouterStatistics* routers) const {
  Scope forget(c.saved), scratch(c.scratch);
  Saved again;
  if (!saved.kept)
    during(c.ops.phases(), Phase::recompute, [&] { again = forward(c, {}, x, {}, routers, Keep::all); });
  const Saved& s = saved.kept ? saved : again;
  const Tensor dw = c.scratch.take({s.gate.rows(), 1}, DType::f32);
  down_back(c, dw, dy, s);
  wide_back(c, dx, x, s);
  route_back(c, dx, dw, x, s.routed);
  if (shared) shared_back(c, dx, dy, x, s);
}

void Moe::visit(Visitor& v) {
  v.experts(*this);
  gate.visit(v);
  for (Expert& e : experts)
    for (Linear* l : {&e.gate_proj, &e.up_proj, &e.down_proj}) l->visit(v);
  for (const auto* adapter : {&gate_up_adapter, &down_adapter})
    if (*adapter) (*adapter)->visit(v);
  if (!shared) return;
  shared->mlp.visit(v);
  shared->gate.visit(v);
}

}  // namespace ft
