#include "engine/layers/moe.h"

#include <algorithm>

#include "engine/layers/sum.h"

namespace ft {
namespace {

std::int64_t adapter_width(const Ctx& c, const Linear& l) {
  const Adapter* const own = l.adapter_in(c);
  return own ? own->width() : 0;
}
// The largest width of the experts' adapters, which may differ.
std::int64_t widest(const Ctx& c, const std::vector<Expert>& experts, Linear Expert::*l) {
  std::int64_t width = 0;
  for (const Expert& e : experts) width = std::max(width, adapter_width(c, e.*l));
  return width;
}

Tensor take(Arena& arena, Shape shape, DType type) {
  return shape.numel() > 0 ? arena.take(shape, type) : Tensor{};
}

// The columns of one adapter's u in the tensor that holds all adapters' u; empty without an adapter.
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

// bias: an expert's in a stack; empty: none.
void forward(Ctx& c, const Linear& l, Tensor y, Tensor x, Tensor u, Tensor bias = {}) {
  c.ops.enter(l.name);
  if (l.adapter_in(c)) l.down(c, u, x);
  l.forward_with(c, y, x, u, bias);
}
void backward(Ctx& c, const Linear& l, Sum& dx, Tensor du, Tensor dy, Tensor x, Tensor u) {
  l.backward_with(c, dx, du, dy, x, u);
  if (l.adapter) l.adapter->down_grad(c, dx, du, x);
}

}  // namespace

// Calls f(expert, first row, end) for each expert that has rows. Ranks acquire and reduce experts together,
// so all of them do so in the same order.
void Moe::each_expert(Ctx& c, const Routed& r, Part part, Pass pass,
                      const std::function<void(const Expert&, std::int64_t, std::int64_t)>& f) const {
  const std::vector<std::int32_t>& starts = r.rows.starts();
  const std::size_t count = starts.size() - 1;
  const auto unit = [&](std::size_t e) { return r.wanted.empty() ? kWithTheLayer : units_[2 * e + part]; };
  const auto comes = [&](std::size_t e) {
    return unit(e) != kWithTheLayer &&
           (r.wanted[e] || (pass == Pass::back && c.store->on_demand().completes(unit(e))));
  };
  for (std::size_t e = 0; e < count; ++e) {
    std::optional<Use> use;
    if (comes(e)) {
      use.emplace(*c.store, unit(e), pass == Pass::back);
      std::int64_t ahead = c.store->on_demand().ahead(unit(e));
      for (std::size_t next = e + 1; next < count && ahead > 0; ++next)
        if (comes(next)) c.store->on_demand().gather(unit(next)), --ahead;
    }
    if (starts[e] < starts[e + 1]) f(experts[static_cast<std::size_t>(first_) + e], starts[e], starts[e + 1]);
    if (pass == Pass::back && unit(e) != kWithTheLayer) c.store->reduce(unit(e), true);
  }
  if (pass == Pass::back && !r.wanted.empty()) c.store->on_demand().settle();
}

// Keeps only the first `most` rows of each expert. `starts` are the first rows of the experts, before and
// after; a plan needs only these. The place of a row that is not kept becomes `none`.
void Moe::keep_first(Ctx& c, const Routed& r, std::int64_t most, std::int64_t none,
                     std::vector<std::int32_t>& starts) const {
  const auto rows = static_cast<std::size_t>(c.ops.computes() ? r.order.numel() : 0);
  std::vector<std::int32_t> all(rows), order, tokens, kept{0}, places(rows, static_cast<std::int32_t>(none));
  c.ops.download(all.data(), r.order);
  for (std::size_t e = 0; e + 1 < starts.size(); ++e) {
    const std::int64_t end = std::min<std::int64_t>(starts[e + 1], starts[e] + most);
    kept.push_back(kept.back() + static_cast<std::int32_t>(end) - starts[e]);
    for (std::int64_t i = starts[e]; i < end && rows > 0; ++i) {
      const std::int32_t choice = all[static_cast<std::size_t>(i)];
      places[static_cast<std::size_t>(choice)] = static_cast<std::int32_t>(order.size());
      order.push_back(choice);
      tokens.push_back(static_cast<std::int32_t>(choice / choices));
    }
  }
  starts = std::move(kept);
  c.ops.upload(r.order.elements(0, starts.back()), order.data());
  c.ops.upload(r.tokens.elements(0, starts.back()), tokens.data());
  c.ops.upload(r.places, places.data());
}

// Reads back the number of rows of each expert, because the device is given one product after another. In a
// plan nothing is read back: the rows are then spread evenly over the experts, which costs the same. Only the
// rows that ranks exchange are counted at worst: the first rank gets as many as it ever could.
ExpertRows Moe::find_rows(Ctx& c, const Routed& r, Tensor starts, const ExpertRoom& room) const {
  const std::int64_t tokens = r.p.rows(), all = room.of_all(tokens), one = room.of_one(tokens);
  std::vector<std::int32_t> own;
  for (std::int64_t e = 0; e <= room.experts; ++e)
    own.push_back(static_cast<std::int32_t>(r.order.numel() * e / room.experts));
  c.ops.download(own.data(), starts);
  if (r.drops) keep_first(c, r, one, all, own);
  if (own_ == 0) return ExpertRows::here(std::move(own), all);
  std::vector<std::int32_t> here;  // starts again, before rows are dropped; in a plan, the worst case
  for (std::int64_t e = 0; e <= room.experts; ++e)
    here.push_back(static_cast<std::int32_t>(std::min(all, e * one)));
  c.ops.download(here.data(), starts);
  std::vector<std::int32_t> counts;
  for (std::size_t e = 0; e + 1 < here.size(); ++e)
    counts.push_back(static_cast<std::int32_t>(std::min<std::int64_t>(one, here[e + 1] - here[e])));
  return ExpertRows::among(c, *c.grid->expert(), own, counts, tokens, room, name);
}

std::vector<std::uint8_t> Moe::find_wanted(Ctx& c, const ExpertRows& rows, Keep keep) const {
  const std::vector<std::int32_t>& starts = rows.starts();
  std::vector<std::uint8_t> mine;
  for (std::size_t e = 0; e + 1 < starts.size(); ++e) mine.push_back(starts[e] < starts[e + 1]);
  return c.store->on_demand().wanted_by_any(mine, own_ > 0, keep >= Keep::all);
}

Moe::Routed Moe::route(Ctx& c, Tensor x, const RouterStatistics* routers, Keep keep) const {
  const std::int64_t tokens = x.rows(), count = std::ssize(experts), rows = tokens * choices;
  const ExpertRoom room{count, choices, c.train ? capacity_factor : 0};
  Routed r;
  r.drops = room.drops(tokens);
  r.most_own = room.of_all(tokens);
  r.p = c.saved.take({tokens, count}, DType::f32);
  r.weights = c.saved.take({tokens, choices}, DType::f32);
  r.ids = c.saved.take({tokens, choices}, DType::i32);
  if (scales) {
    r.statistics = scales->norm.take_statistics(c.saved, tokens);
    r.chosen = c.saved.take({tokens, choices}, DType::f32);
    r.factors = c.saved.take({rows, 1}, DType::f32);
  }
  r.order = c.saved.take({rows}, DType::i32);
  r.tokens = c.saved.take({rows}, DType::i32);
  r.places = c.saved.take({tokens, choices}, DType::i32);
  const Tensor own = c.saved.take({count + 1}, DType::i32);
  const Tensor starts = routers ? routers->starts.elements(layer * (count + 1), count + 1) : own;
  {
    Scope scratch(c.scratch);
    const Tensor logits =
        gate.wide ? c.scratch.take({tokens, count}, DType::f32) : c.temporary(tokens, count);
    score(c, r, logits, x);
    c.ops.enter(gate.name);
    c.ops.run(op::Route{.weights = scales ? r.chosen : r.weights,
                        .ids = r.ids,
                        .p = r.p,
                        .logits = logits,
                        .bias = correction ? correction->value : Tensor{},
                        .rule = rule});
    if (scales) scale_choices(c, r);
    c.ops.run(op::GroupRows{
        .order = r.order, .tokens = r.tokens, .places = r.places, .starts = starts, .ids = r.ids});
  }
  if (routers) {
    const Tensor sums = routers->sums.elements(layer * count, count);
    c.ops.run(op::Fill{sums, 0});
    c.ops.run(op::ColumnSums{sums, r.p});
    r.slope = routers->slope;
  }
  r.rows = find_rows(c, r, starts, room);
  if (!units_.empty()) r.wanted = find_wanted(c, r.rows, keep);
  r.row_weights = c.saved.take({r.rows.room(), 1}, DType::f32).slice(0, r.rows.rows());
  gather(c, r.row_weights, r.weights.view({rows, 1}), r.order, r);
  return r;
}

// y (M, C) = rows of x for this rank's experts, from the tokens of all ranks. from: row of x for each.
void Moe::gather(Ctx& c, Tensor y, Tensor x, Tensor from, const Routed& r) const {
  const Tensor own = from.elements(0, r.rows.own());
  if (!r.rows.travel()) return c.ops.run(op::GatherRows{.y = y, .x = x, .rows = own});
  Scope scratch(c.scratch);
  const Tensor leave = c.scratch.take({r.most_own, x.cols()}, x.dtype).slice(0, own.numel());
  c.ops.run(op::GatherRows{.y = leave, .x = x, .rows = own});
  r.rows.there(c, y, leave);
}

// Rows of x (T, C) for this rank's experts, as (M, C).
Tensor Moe::sorted(Ctx& c, Tensor x, const Routed& r) const {
  const Tensor y = inside(c, x.cols(), r);
  gather(c, y, x, r.tokens, r);
  return y;
}

// (M, columns) in c.scratch, with memory for the largest possible number of rows.
Tensor Moe::inside(Ctx& c, std::int64_t columns, const Routed& r) const {
  return c.temporary(r.rows.room(), columns).slice(0, r.rows.rows());
}

Moe::Results Moe::room_for_results(Ctx& c, std::int64_t columns, const Routed& r) const {
  const std::int64_t all = r.most_own + (r.drops ? 1 : 0);
  if (!r.rows.travel()) {
    const Tensor t = c.temporary(all, columns);
    return {t.slice(0, r.rows.rows()), t};
  }
  const Tensor mine = c.scratch.take({all, columns}, c.dtype);
  return {inside(c, columns, r), mine};
}

// y = residual + the sum of each token's results.
void Moe::add_up(Ctx& c, Tensor y, const Results& results, const Routed& r, Tensor residual) const {
  c.ops.enter(name);
  if (r.rows.travel()) r.rows.back(c, results.all.slice(0, r.rows.own()), results.made);
  if (r.drops) c.ops.run(op::Fill{results.all.slice(r.most_own, r.most_own + 1), 0});
  c.ops.run(op::GatherSum{.y = y, .x = results.all, .rows = r.places, .c = residual});
}

// Computes gate and up, and returns everything that backward needs except the shared expert's tensors.
Moe::Saved Moe::widen(Ctx& c, Tensor x, Tensor routed, const RouterStatistics* routers, Keep keep) const {
  Saved s;
  s.routed = route(c, routed ? routed : x, routers, keep);
  const std::int64_t rows = s.routed.rows.rows(), room = s.routed.rows.room(),
                     of_gate = widest(c, experts, &Expert::gate_proj);
  s.gate = c.save(room, experts.front().gate_proj.out).slice(0, rows);
  if (!stacks) s.up = c.save(room, inner()).slice(0, rows);
  s.u = take(c.saved, {room, of_gate + widest(c, experts, &Expert::up_proj)}, c.dtype);
  Scope scratch(c.scratch);
  const Tensor in = sorted(c, x, s.routed);
  begin(c, gate_up_adapter, false);
  each_expert(c, s.routed, wide, Pass::forth, [&](const Expert& e, std::int64_t first, std::int64_t end) {
    const Tensor own = in.slice(first, end);
    const Tensor bias =
        stacks ? stacks->gate_up.bias_of(stacks->gate_up.biases.value, &e - experts.data()) : Tensor{};
    ft::forward(c, e.gate_proj, s.gate.slice(first, end), own, part(c, s.u, first, end, 0, e.gate_proj),
                bias);
    if (!e.paired())
      ft::forward(c, e.up_proj, s.up.slice(first, end), own, part(c, s.u, first, end, of_gate, e.up_proj));
  });
  return s;
}

void Moe::narrow(Ctx& c, Tensor y, Tensor x, Tensor residual, const Saved& s) const {
  Scope scratch(c.scratch);
  const Routed& r = s.routed;
  const Results z = room_for_results(c, x.cols(), r);
  const Tensor act = this->act(c, s);
  const Tensor u = take(c.scratch, {r.rows.room(), widest(c, experts, &Expert::down_proj)}, c.dtype);
  c.ops.enter(name);
  c.ops.run(op::ScaleRows{.y = act, .x = act, .w = s.routed.row_weights});
  begin(c, down_adapter, false);
  each_expert(c, s.routed, down, Pass::forth, [&](const Expert& e, std::int64_t first, std::int64_t end) {
    ft::forward(c, e.down_proj, z.made.slice(first, end), act.slice(first, end),
                part(c, u, first, end, 0, e.down_proj));
  });
  if (stacks) add_down_bias(c, z.made, r);
  add_up(c, y, z, r, residual);
}

// y += the shared expert's result, weighted if it has a gate.
void Moe::add_shared(Ctx& c, Tensor y, const Saved& s) const {
  if (!shared->gate) {
    c.ops.enter(shared->mlp.name());
    return c.ops.run(op::Add{y, s.shared_y});
  }
  Scope scratch(c.scratch);
  const Tensor scaled = c.temporary(y.rows(), y.cols());
  c.ops.enter(shared->gate->name);
  c.ops.run(op::ScaleRows{.y = scaled, .x = s.shared_y, .w = s.shared_logits, .sigmoid = true});
  c.ops.run(op::Add{y, scaled});
}

Moe::Saved Moe::forward_own(Ctx& c, Tensor y, Tensor x, Tensor residual, const RouterStatistics* routers,
                            Keep keep, Tensor routed) const {
  const std::int64_t mark = c.saved.mark();
  Saved s = widen(c, x, routed, routers, keep);
  if (shared) {
    s.shared_y = c.save(x.rows(), x.cols());
    if (shared->gate) s.shared_logits = c.saved.take({x.rows()}, DType::f32);
    s.shared = shared->mlp.forward(c, s.shared_y, x, {}, keep);
    if (shared->gate) {
      Scope scratch(c.scratch);
      const Tensor logits = c.scratch.take({x.rows(), 1}, c.dtype);
      s.shared_u = shared->gate->forward(c, logits, x);
      c.ops.run(op::Cast{.y = s.shared_logits.view({x.rows(), 1}), .x = logits});
    }
  }
  if (y) {
    narrow(c, y, x, residual, s);
    if (shared) add_shared(c, y, s);
  }
  s.kept = keep >= Keep::all;
  if (s.kept) return s;
  c.saved.rewind(mark);
  return {};
}

// Replaces gate and up by their gradients, given dy, the gradient of the sum; dw: gradient of the rows'
// weights.
void Moe::down_back(Ctx& c, Tensor dw, Tensor dy, const Saved& s) const {
  Scope scratch(c.scratch);
  const Routed& r = s.routed;
  const Shape narrow{r.rows.room(), widest(c, experts, &Expert::down_proj)};
  const Tensor dz = sorted(c, dy, r), act = this->act(c, s);
  const Tensor in = inside(c, inner(), r), din = inside(c, inner(), r);
  const Tensor u = take(c.scratch, narrow, c.dtype), du = take(c.scratch, narrow, c.dtype);
  c.ops.enter(name);
  c.ops.run(op::ScaleRows{.y = in, .x = act, .w = s.routed.row_weights});
  begin(c, down_adapter, true);
  each_expert(c, s.routed, down, Pass::back, [&](const Expert& e, std::int64_t first, std::int64_t end) {
    const Linear& l = e.down_proj;
    const Tensor own = in.slice(first, end), own_u = part(c, u, first, end, 0, l);
    c.ops.enter(l.name);
    if (l.adapter) l.adapter->down(c, own_u, own);  // recomputed: cheaper than keeping it
    Scope own_scratch(c.scratch);
    Sum sum(c.ops, din.slice(first, end));
    ft::backward(c, l, sum, part(c, du, first, end, 0, l), dz.slice(first, end), own, own_u);
    sum.run();
  });
  finish(c, down_adapter);
  c.ops.enter(name);
  c.ops.run(op::ScaleRowsGrad{.dx = din, .dw = dw, .dy = din, .x = act, .w = s.routed.row_weights});
  if (stacks) {
    down_bias_back(c, dw, dz, r);
    c.ops.run(op::GatedPairsGrad{
        .dx = s.gate, .dy = din, .x = s.gate, .limit = stacks->limit, .steepness = stacks->steepness});
    return;
  }
  c.ops.run(
      op::GatedGrad{.f = activation, .dgate = s.gate, .dup = s.up, .dy = din, .gate = s.gate, .up = s.up});
}

// dx = the gradient of x through gate and up, whose gradients have replaced their values.
void Moe::wide_back(Ctx& c, Tensor dx, Tensor x, const Saved& s) const {
  Scope scratch(c.scratch);
  const std::int64_t of_gate = widest(c, experts, &Expert::gate_proj);
  const Results din = dx ? room_for_results(c, x.cols(), s.routed) : Results{};
  const Tensor in = sorted(c, x, s.routed);
  const Tensor du = s.u ? c.scratch.take(s.u.shape, c.dtype) : Tensor{};
  begin(c, gate_up_adapter, true);
  each_expert(c, s.routed, wide, Pass::back, [&](const Expert& e, std::int64_t first, std::int64_t end) {
    const Tensor own = in.slice(first, end);
    Scope own_scratch(c.scratch);
    Sum sum(c.ops, dx ? din.made.slice(first, end) : Tensor{});
    const auto back = [&](const Linear& l, const Tensor& dy, std::int64_t at) {
      ft::backward(c, l, sum, part(c, du, first, end, at, l), dy.slice(first, end), own,
                   part(c, s.u, first, end, at, l));
    };
    back(e.gate_proj, s.gate, 0);
    if (!e.paired()) back(e.up_proj, s.up, of_gate);
    sum.run();
    if (stacks && stacks->gate_up.biases.grad)
      c.ops.run(op::ColumnSums{stacks->gate_up.bias_of(stacks->gate_up.biases.grad, &e - experts.data()),
                               s.gate.slice(first, end)});
  });
  finish(c, gate_up_adapter);
  c.ops.enter(name);
  if (dx) add_up(c, dx, din, s.routed, {});
}

// dx += the gradient of x through the router. dw: gradient of the rows' weights (R, 1).
void Moe::route_back(Ctx& c, Tensor dx, Tensor dw, Tensor x, const Routed& r) const {
  Scope scratch(c.scratch);
  const Tensor dweights = c.scratch.take(r.weights.shape, DType::f32),
               dlogits = gate.wide ? c.scratch.take_padded(r.p.rows(), r.p.cols(), DType::f32)
                                   : c.temporary(r.p.rows(), r.p.cols());
  c.ops.enter(gate.name);
  const Tensor each = dweights.view({dweights.numel(), 1}), order = r.order.elements(0, r.rows.own());
  if (r.drops) c.ops.run(op::Fill{each, 0});
  Tensor own = dw;
  if (r.rows.travel()) {
    own = c.scratch.take({r.most_own, 1}, DType::f32).slice(0, order.numel());
    r.rows.back(c, own, dw);
  }
  c.ops.run(op::ScatterRows{.y = each, .x = own, .rows = order});
  if (scales) scale_choices_back(c, dweights, r);
  c.ops.run(op::RouteGrad{
      .dlogits = dlogits, .dweights = dweights, .ids = r.ids, .p = r.p, .slope = r.slope, .rule = rule});
  score_back(c, dx, dlogits, x, r);
}

void Moe::shared_back(Ctx& c, Tensor dx, Tensor dy, Tensor x, const Saved& s) const {
  Scope scratch(c.scratch);
  const Tensor own = dx ? c.temporary(dx.rows(), dx.cols()) : Tensor{};
  if (!shared->gate) {
    shared->mlp.backward(c, own, dy, x, s.shared);
    if (dx) c.ops.run(op::Add{dx, own});
    return;
  }
  const Tensor dz = c.temporary(dy.rows(), dy.cols());
  const Tensor dw = c.scratch.take({dy.rows()}, DType::f32),
               dlogits = c.scratch.take({dy.rows(), 1}, c.dtype);
  c.ops.enter(shared->gate->name);
  c.ops.run(op::ScaleRowsGrad{
      .dx = dz, .dw = dw, .dy = dy, .x = s.shared_y, .w = s.shared_logits, .sigmoid = true});
  add_up_parts(c, dw);
  c.ops.run(op::Cast{.y = dlogits, .x = dw.view({dy.rows(), 1})});
  shared->mlp.backward(c, own, dz, x, s.shared);
  if (dx) c.ops.run(op::Add{dx, own});
  const Tensor through = only_once(c, dx);
  Sum sum(c.ops, through, through);
  shared->gate->backward(c, sum, dlogits, x, s.shared_u);
  sum.run();
}

void Moe::backward_own(Ctx& c, Tensor dx, Tensor dy, Tensor x, const Saved& saved,
                       const RouterStatistics* routers, const OwnInput& routed) const {
  Scope forget(c.saved), scratch(c.scratch);
  Saved again;
  if (!saved.kept)
    during(c.ops.phases(), Phase::recompute,
           [&] { again = forward_own(c, {}, x, {}, routers, Keep::all, routed.x); });
  const Saved& s = saved.kept ? saved : again;
  const Tensor dw = c.scratch.take({s.routed.rows.room(), 1}, DType::f32).slice(0, s.routed.rows.rows());
  down_back(c, dw, dy, s);
  add_up_parts(c, dw);
  wide_back(c, dx, x, s);
  if (routed.x)
    route_back(c, routed.dx, dw, routed.x, s.routed);
  else
    route_back(c, only_once(c, dx), dw, x, s.routed);
  if (shared) shared_back(c, dx, dy, x, s);
}

void Moe::take_apart(ParameterStore& store, std::vector<Parameter*>& parameters) {
  units_.clear();
  if (stacks) return;
  const std::int64_t count = own_ > 0 ? own_ : std::ssize(experts);
  for (std::int64_t i = 0; i < count; ++i) {
    Expert& e = experts[static_cast<std::size_t>(first_ + i)];
    for (const std::vector<Linear*>& linears :
         {std::vector{&e.gate_proj, &e.up_proj}, std::vector{&e.down_proj}}) {
      std::vector<Parameter*> own;
      EachParameter each([&](Parameter& p) {
        if (store.on_demand().suits(p)) own.push_back(&p);
      });
      for (Linear* l : linears) l->weight->visit(each);
      std::erase_if(parameters, [&](Parameter* p) { return std::ranges::find(own, p) != own.end(); });
      units_.push_back(own.empty() ? kWithTheLayer
                                   : store.add_unit(std::string(parent_of(e.gate_proj.name)), own, true));
    }
  }
  if (std::ranges::count(units_, kWithTheLayer) == std::ssize(units_)) units_.clear();
}

void Moe::visit(Visitor& v) {
  v.experts(*this);
  gate.visit(v);
  if (scales) {
    scales->norm.visit(v);
    v.parameter(scales->experts);
  }
  if (correction) v.parameter(*correction);
  if (stacks) {
    stacks->gate_up.visit(v);
    stacks->down.visit(v);
  } else {
    for (Expert& e : experts)
      for (Linear* l : e.linears()) l->visit(v);
  }
  for (const auto* adapter : {&gate_up_adapter, &down_adapter})
    if (*adapter) (*adapter)->visit(v);
  if (!shared) return;
  shared->mlp.visit(v);
  if (shared->gate) shared->gate->visit(v);
}

}  // namespace ft
