#include "engine/layers/delta_net.h"

#include <array>

#include "engine/layers/sum.h"
#include "engine/ops/delta_room.h"
#include "engine/parallel/columns_by_rank.h"

namespace ft {
namespace {

// Places of the numbers 0, 1, ... in `order`.
std::vector<std::int32_t> inverse(const std::vector<std::int32_t>& order) {
  std::vector<std::int32_t> places(order.size());
  for (std::size_t i = 0; i < order.size(); ++i)
    places[static_cast<std::size_t>(order[i])] = static_cast<std::int32_t>(i);
  return places;
}

// Appends to `order`, for one key head after another, `count` columns from `first` of its `width` columns.
void append(std::vector<std::int32_t>& order, std::int64_t keys, std::int64_t width, std::int64_t first,
            std::int64_t count) {
  for (std::int64_t head = 0; head < keys; ++head)
    for (std::int64_t i = 0; i < count; ++i)
      order.push_back(static_cast<std::int32_t>(head * width + first + i));
}

// Queries, keys and values among the columns of one tensor.
struct Mixed {
  Tensor q, k, v;
  Mixed(const Tensor& all, const DeltaHeads& h)
      : q(all.columns(0, h.key_columns())),
        k(all.columns(h.key_columns(), 2 * h.key_columns())),
        v(all.columns(2 * h.key_columns(), all.cols())) {}
};

}  // namespace

bool DeltaNet::reads_input() const {
  if (in_proj.reads_input() || beta_proj.reads_input()) return true;
  return !by_heads && (gate_proj.reads_input() || decay_proj.reads_input());
}

// Columns of in_proj's output in the order queries, keys, values, gates.
std::vector<std::int32_t> DeltaNet::order_of_columns() const {
  const std::int64_t k = heads.key_width, v = heads.values / heads.keys * heads.value_width;
  const std::int64_t width = 2 * (k + v);
  std::vector<std::int32_t> order;
  append(order, heads.keys, width, 0, k);
  append(order, heads.keys, width, k, k);
  append(order, heads.keys, width, 2 * k, v);
  append(order, heads.keys, width, 2 * k + v, v);
  return order;
}

// Columns of beta_proj's output in the order numbers of beta_proj, numbers of decay_proj.
std::vector<std::int32_t> DeltaNet::order_of_numbers() const {
  const std::int64_t group = heads.values / heads.keys;
  std::vector<std::int32_t> order;
  append(order, heads.keys, 2 * group, 0, group);
  append(order, heads.keys, 2 * group, group, group);
  return order;
}

Tensor DeltaNet::upload_order(Ctx& c, const std::vector<std::int32_t>& order) const {
  const Tensor t = c.scratch.take({std::ssize(order)}, DType::i32);
  c.ops.upload(t, order.data());
  return t;
}

void DeltaNet::project(Ctx& c, Saved& s, Tensor x, Arena& room) const {
  const std::int64_t rows = x.rows(), values = heads.value_columns(), V = heads.values;
  const auto taken = [&](std::int64_t n) { return room.take({rows, n}, c.dtype); };
  const auto kept = [&](std::int64_t n) { return c.saved.take({rows, n}, c.dtype); };
  if (!by_heads) {
    s.mixed = taken(columns());
    s.gate = kept(values);
    s.beta = taken(V);
    s.decay = taken(V);
    s.u = forward_all(
        c, {{in_proj, s.mixed}, {gate_proj, s.gate}, {beta_proj, s.beta}, {decay_proj, s.decay}}, x);
    return;
  }
  const Tensor all = taken(columns() + values), numbers = taken(2 * V);
  Scope scratch(c.scratch);
  const auto made = [&](const Tensor& t) { return c.scratch.take(t.shape, c.dtype); };
  const Tensor all_made = made(all), numbers_made = made(numbers);
  s.u = forward_all(c, {{in_proj, all_made}, {beta_proj, numbers_made}}, x);
  c.ops.enter(name());
  c.ops.run(op::GatherColumns{.y = all, .x = all_made, .columns = upload_order(c, order_of_columns())});
  c.ops.run(
      op::GatherColumns{.y = numbers, .x = numbers_made, .columns = upload_order(c, order_of_numbers())});
  s.mixed = all.columns(0, columns());
  s.gate = all.columns(columns(), all.cols());
  s.beta = numbers.columns(0, V);
  s.decay = numbers.columns(V, 2 * V);
  if (&room == &c.saved) return;
  const Tensor gate = kept(values);
  c.ops.copy(gate, s.gate);
  s.gate = gate;
}

// With by_heads d.mixed and dgate are columns of one tensor, and d.beta and d.decay are.
void DeltaNet::projected_back(Ctx& c, Tensor dx, const Inputs& d, Tensor dgate, Tensor x,
                              const Saved& s) const {
  Sum sum(c.ops, dx);
  if (!by_heads) {
    backward_all(c, sum, {{in_proj, d.mixed}, {gate_proj, dgate}, {beta_proj, d.beta}, {decay_proj, d.decay}},
                 x, s.u);
    return sum.run();
  }
  const auto whole = [&](const Tensor& first, std::int64_t cols) {
    return Tensor(first.data, first.dtype, {first.rows(), cols});
  };
  const auto turned = [&](const Tensor& sorted, const std::vector<std::int32_t>& order) {
    const Tensor y = c.scratch.take(sorted.shape, c.dtype);
    c.ops.run(op::GatherColumns{.y = y, .x = sorted, .columns = upload_order(c, inverse(order))});
    return y;
  };
  c.ops.enter(name());
  const Tensor all = turned(whole(d.mixed, columns() + dgate.cols()), order_of_columns()),
               numbers = turned(whole(d.beta, 2 * heads.values), order_of_numbers());
  backward_all(c, sum, {{in_proj, all}, {beta_proj, numbers}}, x, s.u);
  sum.run();
}

DeltaNet::HeadPart DeltaNet::part_of(const Positions& p) {
  return p.parts ? HeadPart{p.parts->rank(), p.parts->size()} : HeadPart{};
}

DeltaNet::Inputs DeltaNet::side_by_side(const Tensor& all, const DeltaHeads& h) const {
  const std::int64_t mixed = 2 * h.key_columns() + h.value_columns();
  return {all.columns(0, mixed), all.columns(mixed, mixed + h.values),
          all.columns(mixed + h.values, all.cols())};
}

void DeltaNet::each_run(const HeadPart& p, const auto& f) const {
  if (p.count == 1) return f(0, columns(), 0);
  std::int64_t column = 0, channel = 0;
  for (const std::int64_t all : {heads.key_columns(), heads.key_columns(), heads.value_columns()}) {
    const std::int64_t own = all / p.count;
    f(column, column + own, channel + own * p.number);
    column += own;
    channel += all;
  }
}

Tensor DeltaNet::taps_of(const Tensor& all, std::int64_t channel, std::int64_t count) const {
  return all ? all.view({columns(), taps()}).slice(channel, channel + count) : all;
}

Tensor DeltaNet::convolved(Ctx& c, const Inputs& in, const HeadPart& part, const Positions& p) const {
  const KvCache::Layer* const memory = p.cached ? &p.cached->cache->layers[layer] : nullptr;
  const Tensor y = c.scratch.take(in.mixed.shape, c.dtype);
  each_run(part, [&](std::int64_t begin, std::int64_t end, std::int64_t channel) {
    c.ops.run(op::CausalConv{.y = y.columns(begin, end),
                             .memory = memory ? memory->inputs : Tensor{},
                             .x = in.mixed.columns(begin, end),
                             .w = taps_of(conv.value, channel, end - begin),
                             .first = p.first,
                             .slot = memory ? p.cached->slot : Tensor{},
                             .past = memory ? p.cached->past : Tensor{}});
  });
  return y;
}

void DeltaNet::convolved_back(Ctx& c, Tensor dx, Tensor dy, Tensor x, const HeadPart& part,
                              Tensor first) const {
  each_run(part, [&](std::int64_t begin, std::int64_t end, std::int64_t channel) {
    c.ops.run(op::CausalConvGrad{.dx = dx.columns(begin, end),
                                 .dw = taps_of(conv.grad, channel, end - begin),
                                 .dy = dy.columns(begin, end),
                                 .x = x.columns(begin, end),
                                 .w = taps_of(conv.value, channel, end - begin),
                                 .first = first});
  });
}

DeltaNet::Gates DeltaNet::gates(Ctx& c, const Inputs& in, const HeadPart& part) const {
  const Shape shape{in.beta.rows(), in.beta.cols()};
  const Gates made{c.scratch.take(shape, DType::f32), c.scratch.take(shape, DType::f32)};
  c.ops.run(op::DeltaGates{.g = made.g,
                           .beta = made.beta,
                           .a = in.decay,
                           .b = in.beta,
                           .a_log = part.of(a_log.value),
                           .dt_bias = part.of(dt_bias.value)});
  return made;
}

Tensor DeltaNet::room_to_work(Ctx& c, const DeltaHeads& h, std::int64_t rows, bool gradient) {
  return c.scratch.take(delta_work_shape(c.ops.device(), h, rows, gradient), DType::f32);
}

void DeltaNet::run(Ctx& c, Tensor o, const Inputs& in, const Positions& p) const {
  Scope scratch(c.scratch);
  const KvCache::Layer* const memory = p.cached ? &p.cached->cache->layers[layer] : nullptr;
  const HeadPart part = part_of(p);
  const DeltaHeads own = part.of(heads);
  const Mixed x(convolved(c, in, part, p), own);
  const Gates by = gates(c, in, part);
  c.ops.run(op::DeltaRule{.o = o,
                          .memory = memory ? memory->state : Tensor{},
                          .work = room_to_work(c, own, o.rows(), false),
                          .q = x.q,
                          .k = x.k,
                          .v = x.v,
                          .g = by.g,
                          .beta = by.beta,
                          .first = p.first,
                          .slot = memory ? p.cached->slot : Tensor{},
                          .past = memory ? p.cached->past : Tensor{},
                          .heads = own});
}

void DeltaNet::run_back(Ctx& c, const Inputs& d, Tensor d_o, const Inputs& in, const Positions& p) const {
  Scope scratch(c.scratch);
  const std::int64_t rows = d_o.rows();
  const HeadPart part = part_of(p);
  const DeltaHeads own = part.of(heads);
  const Mixed x(convolved(c, in, part, p), own);
  const Gates by = gates(c, in, part);
  const Tensor dconv = c.scratch.take(in.mixed.shape, c.dtype);
  const Tensor dg = c.scratch.take(by.g.shape, DType::f32), dbeta = c.scratch.take(by.g.shape, DType::f32);
  const Mixed dx(dconv, own);
  {
    Scope inner(c.scratch);
    const std::int64_t between = std::max<std::int64_t>(1, rows / kDeltaChunk);
    c.ops.run(op::DeltaRuleGrad{.dq = dx.q,
                                .dk = dx.k,
                                .dv = dx.v,
                                .dg = dg,
                                .dbeta = dbeta,
                                .states = c.scratch.take({between, own.state()}, DType::f32),
                                .work = room_to_work(c, own, rows, true),
                                .o_grad = d_o,
                                .q = x.q,
                                .k = x.k,
                                .v = x.v,
                                .g = by.g,
                                .beta = by.beta,
                                .first = p.first,
                                .heads = own});
  }
  c.ops.run(op::DeltaGatesGrad{.da = d.decay,
                               .db = d.beta,
                               .da_log = part.of(a_log.grad),
                               .ddt_bias = part.of(dt_bias.grad),
                               .dg = dg,
                               .dbeta = dbeta,
                               .a = in.decay,
                               .b = in.beta,
                               .a_log = part.of(a_log.value),
                               .dt_bias = part.of(dt_bias.value)});
  convolved_back(c, d.mixed, dconv, in.mixed, part, p.first);
}

void DeltaNet::recur_together(Ctx& c, Saved& s, const Positions& p) const {
  p.parts->enter(name());
  const ColumnsByRank by(*p.parts, p.sharing);
  const DeltaHeads own = part_of(p).of(heads);
  const Mixed mixed(s.mixed, heads);
  const Tensor all =
      c.saved.take({by.rows(s.mixed), 2 * own.key_columns() + own.value_columns() + 2 * own.values}, c.dtype);
  by.gather(c, all, std::array{mixed.q, mixed.k, mixed.v, s.beta, s.decay});
  const Inputs in = side_by_side(all, own);
  s.mixed = in.mixed;
  s.beta = in.beta;
  s.decay = in.decay;
  Scope scratch(c.scratch);
  const Tensor o = c.scratch.take({all.rows(), own.value_columns()}, c.dtype);
  run(c, o, in, p);
  by.give_back(c, std::array{s.o}, o);
}

void DeltaNet::recur_together_back(Ctx& c, const Inputs& d, Tensor d_o, const Saved& s,
                                   const Positions& p) const {
  p.parts->enter(name());
  const ColumnsByRank by(*p.parts, p.sharing);
  const DeltaHeads own = part_of(p).of(heads);
  const std::int64_t rows = s.mixed.rows();
  Scope scratch(c.scratch);
  const Tensor all = c.scratch.take({rows, s.mixed.cols() + 2 * own.values}, c.dtype),
               all_do = c.scratch.take({rows, own.value_columns()}, c.dtype);
  by.gather(c, all_do, std::array{d_o});
  run_back(c, side_by_side(all, own), all_do, {s.mixed, s.beta, s.decay}, p);
  const Mixed mixed(d.mixed, heads);
  by.give_back(c, std::array{mixed.q, mixed.k, mixed.v, d.beta, d.decay}, all);
}

// Runs over complete sequences: rows that several sequences share are copied into each.
void DeltaNet::recur(Ctx& c, Saved& s, const Positions& p) const {
  if (p.parts) return recur_together(c, s, p);
  if (!p.shared) return run(c, s.o, {s.mixed, s.beta, s.decay}, p);
  Scope scratch(c.scratch);
  const Tensor o = c.scratch.take({p.shared.whole(), s.o.cols()}, c.dtype);
  run(c, o, {p.shared.spread(c, s.mixed), p.shared.spread(c, s.beta), p.shared.spread(c, s.decay)}, p);
  p.shared.take_first(c, s.o, o);
}

void DeltaNet::recur_back(Ctx& c, const Inputs& d, Tensor d_o, const Saved& s, const Positions& p) const {
  if (p.parts) return recur_together_back(c, d, d_o, s, p);
  if (!p.shared) return run_back(c, d, d_o, {s.mixed, s.beta, s.decay}, p);
  Scope scratch(c.scratch);
  const Inputs in{p.shared.spread(c, s.mixed), p.shared.spread(c, s.beta), p.shared.spread(c, s.decay)};
  const auto like = [&](const Tensor& t) { return c.scratch.take(t.shape, c.dtype); };
  const Inputs all{like(in.mixed), like(in.beta), like(in.decay)};
  run_back(c, all, p.shared.spread(c, d_o, true), in, p);
  p.shared.add_up(c, d.mixed, all.mixed);
  p.shared.add_up(c, d.beta, all.beta);
  p.shared.add_up(c, d.decay, all.decay);
}

void DeltaNet::gated(Ctx& c, Tensor y, Tensor normed, const Saved& s) const {
  const Shape by_head{s.o.numel() / heads.value_width, heads.value_width};
  norm.forward(c, normed.view(by_head), s.rstd, s.o.view(by_head));
  c.ops.enter(name());
  c.ops.run(op::Gated{.f = Activation::silu, .y = y, .gate = s.gate, .up = normed});
}

DeltaNet::Saved DeltaNet::forward(Ctx& c, Tensor y, Tensor x, Tensor residual, const Positions& p) const {
  const std::int64_t rows = x.rows();
  Saved s;
  c.ops.enter(name());
  Scope scratch(c.scratch);
  project(c, s, x, p.parts ? c.scratch : c.saved);
  s.o = c.saved.take({rows, heads.value_columns()}, c.dtype);
  s.rstd = RmsNorm::take_statistics(c.saved, rows * heads.values);
  c.ops.enter(name());
  recur(c, s, p);
  const Tensor normed = c.scratch.take(s.o.shape, c.dtype), out = c.scratch.take(s.o.shape, c.dtype);
  gated(c, out, normed, s);
  s.out_u = out_proj.forward(c, y, out, residual);
  return s;
}

void DeltaNet::backward(Ctx& c, Tensor dx, Tensor dy, Tensor x, const Saved& s, const Positions& p) const {
  Scope scratch(c.scratch);
  const std::int64_t rows = dy.rows(), values = heads.value_columns(), V = heads.values;
  const Tensor all = c.scratch.take({rows, by_heads ? columns() + values : columns()}, c.dtype),
               numbers = c.scratch.take({rows, by_heads ? 2 * V : V}, c.dtype);
  const Inputs d{all.columns(0, columns()), numbers.columns(0, V),
                 by_heads ? numbers.columns(V, 2 * V) : c.scratch.take({rows, V}, c.dtype)};
  const Tensor dgate =
      by_heads ? all.columns(columns(), all.cols()) : c.scratch.take({rows, values}, c.dtype);
  {
    Scope inner(c.scratch);
    const auto room = [&] { return c.scratch.take({rows, values}, c.dtype); };
    const Tensor normed = room(), out = room(), dout = room(), d_o = room();
    gated(c, out, normed, s);
    Sum sum(c.ops, dout);
    out_proj.backward(c, sum, dy, out, s.out_u);
    sum.run();
    c.ops.enter(name());
    c.ops.run(op::GatedGrad{
        .f = Activation::silu, .dgate = dgate, .dup = normed, .dy = dout, .gate = s.gate, .up = normed});
    const Shape by_head{rows * V, heads.value_width};
    c.ops.run(op::Fill{d_o, 0});
    norm.backward(c, d_o.view(by_head), normed.view(by_head), s.o.view(by_head), s.rstd);
    c.ops.enter(name());
    recur_back(c, d, d_o, s, p);
  }
  projected_back(c, dx, d, dgate, x, s);
}

KvCache::Layer DeltaNet::take_cache(Arena& arena, std::int64_t slots, DType dtype) const {
  return {.inputs = arena.take({slots, (taps() - 1) * columns()}, dtype),
          .state = arena.take({slots, heads.state()}, DType::f32)};
}

void DeltaNet::share_rows(std::int64_t ranks) const {
  if (heads.keys % ranks != 0)
    refuse_row_share(
        ranks, str(ranks, " ranks cannot share the ", heads.keys, " key heads (linear_num_key_heads) of ",
                   name(), " evenly; sizes that would do: ", divisors(heads.keys)));
}

void DeltaNet::cut(TensorRank t) {
  require_heads(heads.keys, "linear_num_key_heads", t);
  const Parts mixed{heads.key_columns(), heads.key_columns(), heads.value_columns()};
  in_proj.share(Cut::columns, t, by_heads ? Parts{} : mixed);
  for (Linear* l : {&gate_proj, &beta_proj, &decay_proj})
    if (l->weight) l->share(Cut::columns, t);
  out_proj.share(Cut::rows, t);
  ft::cut(conv, 0, t, mixed);
  for (Parameter* p : {&a_log, &dt_bias}) ft::cut(*p, 0, t);
  norm.weight.summed = true;  // it serves all heads, and each rank sees only its own
  heads = HeadPart{t.rank, t.size}.of(heads);
}

void DeltaNet::visit(Visitor& v) {
  if (by_heads)
    visit_all(v, {&in_proj, &beta_proj});
  else
    visit_all(v, {&in_proj, &gate_proj, &beta_proj, &decay_proj});
  for (Parameter* p : {&conv, &a_log, &dt_bias}) v.parameter(*p);
  norm.visit(v);
  out_proj.visit(v);
}

}  // namespace ft
