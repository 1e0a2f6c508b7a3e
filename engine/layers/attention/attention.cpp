#include "engine/layers/attention/attention.h"

#include <algorithm>

#include "engine/layers/sum.h"
#include "engine/parallel/sequence_part.h"

namespace ft {
namespace {

// Part `which` (0, 1 or 2) of each head's 3 D columns in `all` (rows, H 3 D), as (rows H, D).
Tensor third_of_heads(const Tensor& all, std::int64_t which, std::int64_t width) {
  return all.view({all.numel() / (3 * width), 3 * width}).columns(which * width, (which + 1) * width);
}

// View of x with rows as wide as the norm: one head's values per row if the norm is over single heads.
Tensor rows_of(const Norm& norm, const Tensor& x) { return x.view({x.numel() / norm.width(), norm.width()}); }

}  // namespace

void SelfAttention::check() const {
  const bool norms = q_norm || k_norm || v_norm, loan = lends || borrows, keys = bool(k_proj.weight);
  require(!latent || (!gated && !norms && !loan && !values_are_keys && !by_heads && !keys),
          "latent attention has no gates, norms over heads, loans, values that are keys or k_proj");
  require(!fused() || (!gated && !norms && !loan && !values_are_keys),
          "a linear for queries, keys and values has no gates, norms, loans or values that are keys");
  require(!by_heads || (fused() && heads.query == heads.key_value),
          "by_heads is an order of a linear that makes equally many queries, keys and values");
  require(!lends || !borrows, "a layer that borrows keys lends none");
  require(!borrows || (!keys && !v_proj.weight && !k_norm && !v_norm),
          "a layer that borrows keys and values makes and norms none");
  require(!values_are_keys || borrows || (k_norm && v_norm && !v_proj.weight),
          "values that are keys have k_norm and v_norm, and no v_proj");
}

void SelfAttention::attend(Ctx& c, const Saved& s, const Positions& p) const {
  if (p.cached) {
    const KvCache::Layer& past = p.cached->cache->layers[layer];
    if (!borrows) {
      c.ops.run(op::ScatterRows{.y = past.k, .x = s.k, .rows = p.cached->rows});
      c.ops.run(op::ScatterRows{.y = past.v, .x = s.v, .rows = p.cached->rows});
    }
    if (!p.cached->fresh) {
      KeyRanges seen = p.cached->ranges;
      seen.window = window;
      c.ops.run(op::AttentionRanges{.y = s.y,
                                    .lse = sinks ? s.lse : Tensor{},
                                    .q = s.q,
                                    .k = past.k,
                                    .v = past.v,
                                    .heads = heads,
                                    .ranges = seen,
                                    .scores = scores(c)});
      return add_sinks(c, s.y, s.lse);
    }
  }
  const bool shared = bool(p.shared);
  Scope scratch(c.scratch);
  const auto whole = [&](Tensor t) { return shared ? p.shared.spread(c, t) : t; };
  Tensor y = shared ? c.scratch.take({p.shared.whole(), s.y.cols()}, s.y.dtype) : s.y;
  c.ops.run(op::Attention{.y = y,
                          .lse = s.lse,
                          .q = whole(s.q),
                          .k = whole(s.k),
                          .v = whole(s.v),
                          .heads = heads,
                          .mask = mask(p),
                          .scores = scores(c)});
  add_sinks(c, y, s.lse);
  if (shared) p.shared.take_first(c, s.y, y);
}

// The gradient of a shared row's query comes from its first copy alone: every copy attends to the same keys.
void SelfAttention::attend_back(Ctx& c, Tensor dq, Tensor dk, Tensor dv, Tensor dy, const Saved& s,
                                const Positions& p) const {
  const bool shared = bool(p.shared);
  Scope scratch(c.scratch);
  const auto whole = [&](Tensor t, bool once) { return shared ? p.shared.spread(c, t, once) : t; };
  const auto room = [&](Tensor t) {
    return shared ? c.scratch.take({p.shared.whole(), t.cols()}, t.dtype) : t;
  };
  Tensor all_dq = room(dq), all_dk = room(dk), all_dv = room(dv);
  {
    Scope inner(c.scratch);
    const Tensor all_dy = whole(dy, true), all_y = whole(s.y, false);
    add_sinks_grad(c, all_dy, all_y, s.lse);
    c.ops.run(op::AttentionGrad{.dq = all_dq,
                                .dk = all_dk,
                                .dv = all_dv,
                                .dy = all_dy,
                                .y = all_y,
                                .lse = s.lse,
                                .q = whole(s.q, false),
                                .k = whole(s.k, false),
                                .v = whole(s.v, false),
                                .heads = heads,
                                .mask = mask(p),
                                .scores = scores(c)});
  }
  if (!shared) return;
  p.shared.take_first(c, dq, all_dq);
  p.shared.add_up(c, dk, all_dk);
  p.shared.add_up(c, dv, all_dv);
}

// Attends over the rows of all ranks that share the sequences, with this rank's heads only.
void SelfAttention::attend_together(Ctx& c, Saved& s, const Positions& p) const {
  p.parts->enter(name());
  const HeadsByRank by(*p.parts, heads);
  const std::int64_t rows = by.rows(s.q);
  const Tensor all = c.saved.take({rows, by.columns()}, c.dtype);
  by.gather(c, all, s.q, s.k, s.v);
  s.q = by.queries(all);
  s.k = by.keys(all);
  s.v = by.values(all);
  s.together = c.saved.take({rows, s.q.cols()}, c.dtype);
  s.lse = c.saved.take({by.own().query, rows}, DType::f32);
  c.ops.run(op::Attention{.y = s.together,
                          .lse = s.lse,
                          .q = s.q,
                          .k = s.k,
                          .v = s.v,
                          .heads = by.own(),
                          .mask = mask(p),
                          .scores = scores(c, by.first())});
  add_sinks(c, s.together, s.lse, by.first());
  by.give_back(c, s.y, s.together);
}

void SelfAttention::attend_together_back(Ctx& c, Tensor dq, Tensor dk, Tensor dv, Tensor dy, const Saved& s,
                                         const Positions& p) const {
  p.parts->enter(name());
  const HeadsByRank by(*p.parts, heads);
  Scope scratch(c.scratch);
  const Tensor all = c.scratch.take({by.rows(dy), by.columns()}, c.dtype);
  {
    Scope inner(c.scratch);
    const Tensor all_dy = c.scratch.take(s.together.shape, c.dtype);
    by.gather(c, all_dy, dy);
    add_sinks_grad(c, all_dy, s.together, s.lse, by.first());
    c.ops.run(op::AttentionGrad{.dq = by.queries(all),
                                .dk = by.keys(all),
                                .dv = by.values(all),
                                .dy = all_dy,
                                .y = s.together,
                                .lse = s.lse,
                                .q = s.q,
                                .k = s.k,
                                .v = s.v,
                                .heads = by.own(),
                                .mask = mask(p),
                                .scores = scores(c, by.first())});
  }
  by.give_back(c, dq, dk, dv, all);
}

RingAttention SelfAttention::ring(Ctx& c, const Positions& p) const {
  p.parts->enter(name());
  return {c, *p.parts, heads, mask(p), scores(c)};
}

void SelfAttention::attend_any(Ctx& c, Saved& s, const Positions& p) const {
  if (p.parts && p.sharing == SequenceSharing::ulysses) return attend_together(c, s, p);
  const std::int64_t rows = s.q.rows();
  if (p.parts) {
    s.lse = c.saved.take({2 * heads.query, rows / 2}, DType::f32);
    ring(c, p).forward(s.y, s.lse, s.q, s.k, s.v);
    for (const RingAttention::Chunk& one : RingAttention::chunks(heads, s.lse))
      add_sinks(c, one.rows(s.y), one.lse);
    return;
  }
  s.lse = c.saved.take({heads.query, p.shared ? p.shared.whole() : rows}, DType::f32);
  attend(c, s, p);
}

void SelfAttention::attend_any_back(Ctx& c, Tensor dq, Tensor dk, Tensor dv, Tensor dy, const Saved& s,
                                    const Positions& p) const {
  if (!p.parts) return attend_back(c, dq, dk, dv, dy, s, p);
  if (p.sharing == SequenceSharing::ulysses) return attend_together_back(c, dq, dk, dv, dy, s, p);
  for (const RingAttention::Chunk& one : RingAttention::chunks(heads, s.lse))
    add_sinks_grad(c, one.rows(dy), one.rows(s.y), one.lse);
  ring(c, p).backward({dq, dk, dv}, dy, s.y, s.lse, s.q, s.k, s.v);
}

void SelfAttention::share_rows(std::int64_t ranks, SequenceSharing by) const {
  if (by == SequenceSharing::ulysses) return HeadsByRank::require_divisible(heads, ranks);
  if (dropout.p != 0)
    refuse_ring(
        "and the model's attention_dropout is above 0; set the type to ulysses, or attention_dropout to 0 in "
        "config.json");
}

Scores SelfAttention::scores(const Ctx& c, std::int64_t from_head) const {
  Scores s{.scale = scale, .cap = cap};
  if (dropout.active(c)) {
    s.dropout = dropout.p;
    s.random = dropout.mask(c, queries().name);
    s.first_head = first_head + from_head;
    s.all_heads = all_heads > 0 ? all_heads : heads.query;
  }
  return s;
}

Tensor SelfAttention::half_of_heads(const Tensor& wide, std::int64_t which) const {
  const std::int64_t D = heads.width;
  return wide.view({wide.numel() / (2 * D), 2 * D}).columns(which * D, (which + 1) * D);
}

void SelfAttention::add_sinks(Ctx& c, Tensor y, Tensor lse, std::int64_t from) const {
  if (sinks)
    c.ops.run(op::AttentionSinks{.y = y, .lse = lse, .sinks = sinks->value.elements(from, lse.rows())});
}

void SelfAttention::add_sinks_grad(Ctx& c, Tensor dy, Tensor y, Tensor lse, std::int64_t from) const {
  if (!sinks || !sinks->grad) return;
  const auto own = [&](const Tensor& t) { return t.elements(from, lse.rows()); };
  c.ops.run(op::AttentionSinksGrad{
      .dsinks = own(sinks->grad), .dy = dy, .y = y, .lse = lse, .sinks = own(sinks->value)});
}

// y = sigmoid(gate) attended
void SelfAttention::gate(Ctx& c, Tensor y, const Saved& s) const {
  c.ops.enter(name());
  c.ops.run(op::Gated{.f = Activation::sigmoid, .y = y, .gate = s.gate, .up = s.y});
}

auto SelfAttention::with_linears(Tensor q, Tensor k, Tensor v, const auto& f) const {
  if (borrows) return f({{q_proj, q}});
  if (values_are_keys) return f({{q_proj, q}, {k_proj, k}});
  return f({{q_proj, q}, {k_proj, k}, {v_proj, v}});
}

bool SelfAttention::reads_input() const {
  if (latent) return latent->reads_input();
  if (fused()) return q_proj.reads_input();
  return with_linears({}, {}, {}, [](Siblings all) {
    return std::ranges::any_of(all, [](const Sibling& s) { return s.linear.reads_input(); });
  });
}

// Makes queries, keys and values, before norms and rotation.
void SelfAttention::project(Ctx& c, Saved& s, Tensor x, const Positions& p, Arena& room) const {
  if (latent) {
    const LatentProjections::Made made = latent->forward(c, s.low, x, p, room);
    s.q = made.q;
    s.k = made.k;
    s.v = made.v;
    return;
  }
  const std::int64_t rows = x.rows(), D = heads.width, queries = heads.query * D, keys = heads.key_value * D;
  auto dense = [&](std::int64_t columns) { return room.take({rows, columns}, c.dtype); };
  auto kept = [&](std::int64_t columns) { return c.saved.take({rows, columns}, c.dtype); };
  if (!fused()) {
    const LentKeys* lent = lends ? &p.lent[*lends] : borrows ? &p.lent[*borrows] : nullptr;
    s.q = dense(queries);
    s.k = lent ? lent->k : dense(keys);
    s.v = lent ? lent->v : dense(keys);
    if (q_norm) s.q_raw = kept(queries);
    if (k_norm) s.k_raw = kept(keys);
    if (v_norm) s.v_raw = values_are_keys ? s.k_raw : kept(keys);
    if (q_norm) s.q_statistics = q_norm->take_statistics(c.saved, s.q.numel() / q_norm->width());
    if (k_norm) s.k_statistics = k_norm->take_statistics(c.saved, s.k.numel() / k_norm->width());
    if (v_norm) s.v_statistics = v_norm->take_statistics(c.saved, s.v);
    const Tensor q = q_norm ? s.q_raw : s.q;
    Scope scratch(c.scratch);
    const Tensor wide = gated ? c.scratch.take({rows, 2 * queries}, c.dtype) : q;
    s.u = with_linears(wide, k_norm ? s.k_raw : s.k, v_norm ? s.v_raw : s.v,
                       [&](Siblings all) { return forward_all(c, all, x); });
    if (!gated) return;
    s.gate = kept(queries);
    std::int64_t which = 0;
    for (const Tensor& t : {q, s.gate})
      c.ops.run(op::Cast{.y = t.view({rows * heads.query, D}), .x = half_of_heads(wide, which++)});
    return;
  }
  if (!by_heads) {
    const Tensor all = dense(queries + 2 * keys);
    s.q = all.columns(0, queries);
    s.k = all.columns(queries, queries + keys);
    s.v = all.columns(queries + keys, queries + 2 * keys);
    s.u = q_proj.forward(c, all, x);
    return;
  }
  for (Tensor* t : {&s.q, &s.k, &s.v}) *t = dense(queries);
  Scope scratch(c.scratch);
  const Tensor all = c.scratch.take({rows, 3 * queries}, c.dtype);
  s.u = q_proj.forward(c, all, x);
  std::int64_t which = 0;
  for (const Tensor& t : {s.q, s.k, s.v})
    c.ops.run(op::Cast{.y = t.view({rows * heads.query, D}), .x = third_of_heads(all, which++, D)});
}

// all: the tensor that dq, dk and dv are columns of (or, with by_heads, are copied into); empty if q, k and v
// have a linear each.
void SelfAttention::projected_back(Ctx& c, Tensor dx, Tensor dq, Tensor dk, Tensor dv, Tensor all, Tensor x,
                                   const Saved& s) const {
  Sum sum(c.ops, dx);
  if (!fused()) {
    with_linears(dq, dk, dv, [&](Siblings own) { backward_all(c, sum, own, x, s.u); });
    return sum.run();
  }
  std::int64_t which = 0;
  for (const Tensor& t : {dq, dk, dv})
    if (by_heads)
      c.ops.run(op::Cast{.y = third_of_heads(all, which++, heads.width),
                         .x = t.view({t.numel() / heads.width, heads.width})});
  q_proj.backward(c, sum, all, x, s.u);
  sum.run();
}

void SelfAttention::norm(Ctx& c, const Saved& s) const {
  if (q_norm) q_norm->forward(c, rows_of(*q_norm, s.q), s.q_statistics, rows_of(*q_norm, s.q_raw));
  if (k_norm) k_norm->forward(c, rows_of(*k_norm, s.k), s.k_statistics, rows_of(*k_norm, s.k_raw));
  if (v_norm) v_norm->forward(c, s.v, s.v_statistics, s.v_raw);
}

void SelfAttention::norm_back(Ctx& c, Tensor& dq, Tensor& dk, Tensor& dv, const Saved& s) const {
  const auto room = [&](const Tensor& d) {
    const Tensor into = c.scratch.take(d.shape, c.dtype);
    c.ops.run(op::Fill{into, 0});
    return into;
  };
  const auto through = [&](const Norm& norm, Tensor& d, Tensor raw, Tensor statistics) {
    const Tensor into = room(d);
    norm.backward(c, rows_of(norm, into), rows_of(norm, d), rows_of(norm, raw), statistics);
    d = into;
  };
  if (q_norm) through(*q_norm, dq, s.q_raw, s.q_statistics);
  if (k_norm) through(*k_norm, dk, s.k_raw, s.k_statistics);
  if (!v_norm) return;
  const Tensor into = values_are_keys ? dk : room(dv);
  v_norm->backward(c, into, dv, s.v_raw, s.v_statistics);
  dv = into;
}

// Adds a borrower's gradients to the loan, or the loan's to the lender's. Blocks run backwards, so that all
// borrowers come before their lender.
void SelfAttention::settle_loans(Ctx& c, Tensor dk, Tensor dv, const Positions& p) const {
  if (borrows) {
    c.ops.run(op::Add{p.lent[*borrows].dk, dk});
    c.ops.run(op::Add{p.lent[*borrows].dv, dv});
  } else if (lends) {
    c.ops.run(op::Add{dk, p.lent[*lends].dk});
    c.ops.run(op::Add{dv, p.lent[*lends].dv});
  }
}

SelfAttention::Saved SelfAttention::forward(Ctx& c, Tensor y, Tensor x, Tensor residual,
                                            const Positions& p) const {
  const std::int64_t rows = x.rows(), D = heads.width;
  auto dense = [&](std::int64_t n) { return c.saved.take({rows, n * D}, c.dtype); };
  c.ops.enter(name());
  Saved s;
  Scope scratch(c.scratch);
  project(c, s, x, p, p.parts && p.sharing == SequenceSharing::ulysses ? c.scratch : c.saved);
  if (!latent) {
    norm(c, s);
    c.ops.enter(name());
    p.rotate(c, s.q, borrows ? Tensor{} : s.k, D, rotation, 1);
  }
  s.y = dense(heads.query);
  attend_any(c, s, p);
  Tensor out = gated ? c.scratch.take(s.y.shape, c.dtype) : s.y;
  if (gated) gate(c, out, s);
  if (latent) out = latent->narrowed(c, out);
  s.o_u = o_proj.forward(c, y, out, residual);
  return s;
}

void SelfAttention::backward(Ctx& c, Tensor dx, Tensor dy, Tensor x, const Saved& s,
                             const Positions& p) const {
  Scope scratch(c.scratch);
  const std::int64_t rows = dy.rows(), D = heads.width;
  auto dense = [&](std::int64_t n) { return c.scratch.take({rows, n * D}, c.dtype); };
  Tensor all = fused() ? dense(heads.query + 2 * heads.key_value) : Tensor{};
  const bool parts = fused() && !by_heads;
  const std::int64_t keys = heads.query * D, values = keys + heads.key_value * D;
  Tensor dq = parts ? all.columns(0, keys) : dense(heads.query),
         dk = parts ? all.columns(keys, values) : dense(heads.key_value),
         dv = parts ? all.columns(values, all.cols()) : dense(heads.key_value);
  const Tensor wide = gated ? dense(2 * heads.query) : Tensor{};  // gradients of queries and gates
  {
    Scope inner(c.scratch);
    Tensor da = c.scratch.take({rows, o_proj.in}, c.dtype), out = gated ? dense(heads.query) : s.y;
    if (gated) gate(c, out, s);
    if (latent) out = latent->narrowed(c, out);
    Sum sum(c.ops, da);
    o_proj.backward(c, sum, dy, out, s.o_u);
    sum.run();
    c.ops.enter(name());
    if (gated) {
      const auto by_head = [&](const Tensor& t) { return t.view({rows * heads.query, D}); };
      c.ops.run(op::GatedGrad{.f = Activation::sigmoid,
                              .dgate = half_of_heads(wide, 1),
                              .dup = by_head(out),
                              .dy = by_head(da),
                              .gate = by_head(s.gate),
                              .up = by_head(s.y)});
      da = out;
    }
    if (latent) da = latent->widened(c, da);
    attend_any_back(c, dq, dk, dv, da, s, p);
  }
  if (latent) return latent->backward(c, dx, {dq, dk, dv}, x, s.low, p);
  settle_loans(c, dk, dv, p);
  p.rotate(c, dq, borrows ? Tensor{} : dk, D, rotation, -1);
  norm_back(c, dq, dk, dv, s);
  if (gated) {
    c.ops.run(op::Cast{.y = half_of_heads(wide, 0), .x = dq.view({rows * heads.query, D})});
    dq = wide;
  }
  projected_back(c, dx, dq, dk, dv, all, x, s);
}

void SelfAttention::cut(TensorRank t) {
  if (latent)
    refuse_cut(
        str("ranks cannot share the heads of ", name(), ", made by way of low ranks, yet; leave it out"));
  if (q_norm && q_norm->width() != heads.width)
    refuse_cut(str("ranks cannot share ", q_proj.name, ", whose norm is over all heads, yet; leave it out"));
  require_heads(heads.key_value, "num_key_value_heads", t);
  const std::int64_t queries = heads.query * heads.width, keys = heads.key_value * heads.width;
  if (by_heads)
    q_proj.share(Cut::columns, t);
  else if (fused())
    q_proj.share(Cut::columns, t, {queries, keys, keys});
  else
    for (Linear* l : {&q_proj, &k_proj, &v_proj})
      if (l->weight) l->share(Cut::columns, t);
  o_proj.share(Cut::rows, t);
  if (sinks) ft::cut(*sinks, 0, t);
  all_heads = heads.query;
  heads.query /= t.size;
  first_head = heads.query * t.rank;
  heads.key_value /= t.size;
  for (auto* norm : {&q_norm, &k_norm})
    if (*norm)  // the norm serves all heads, and each rank sees only its own
      for (Parameter* p : parameters_of(**norm)) p->summed = true;
}

void SelfAttention::visit(Visitor& v) {
  if (latent)
    latent->visit(v);
  else if (fused() || borrows)
    q_proj.visit(v);
  else if (values_are_keys)
    visit_all(v, {&q_proj, &k_proj});
  else
    visit_all(v, {&q_proj, &k_proj, &v_proj});
  o_proj.visit(v);
  if (sinks) v.parameter(*sinks);
  for (auto* norm : {&q_norm, &k_norm})
    if (*norm) (*norm)->visit(v);
}

}  // namespace ft
