#include "engine/nn/attention.h"

namespace ft {
namespace {

// Rows as wide as the norm: each head's values, where it is over those.
Tensor rows_of(const Norm& norm, const Tensor& x) { return x.view({x.numel() / norm.width(), norm.width()}); }

}  // namespace

void SelfAttention::attend(Ctx& c, const Saved& s, const Positions& p) const {
  if (p.cached) {
    const KvCache::Layer& past = p.cached->cache->layers[layer];
    c.ops.run(op::ScatterRows{.y = past.k, .x = s.k, .rows = p.cached->rows});
    c.ops.run(op::ScatterRows{.y = past.v, .x = s.v, .rows = p.cached->rows});
    if (!p.cached->fresh) {
      KeyRanges seen = p.cached->ranges;
      seen.window = window;
      c.ops.run(op::AttentionRanges{.y = s.y,
                                    .q = s.q,
                                    .k = past.k,
                                    .v = past.v,
                                    .heads = heads,
                                    .ranges = seen,
                                    .scores = {.scale = scale}});
      return;
    }
  }
  c.ops.run(op::Attention{.y = s.y,
                          .lse = s.lse,
                          .q = s.q,
                          .k = s.k,
                          .v = s.v,
                          .heads = heads,
                          .mask = mask(p),
                          .scores = {.scale = scale}});
}

SelfAttention::Saved SelfAttention::forward(Ctx& c, Tensor y, Tensor x, Tensor residual,
                                            const Positions& p) const {
  const std::int64_t rows = x.rows(), D = heads.width;
  auto dense = [&](std::int64_t n) { return c.saved.take({rows, n * D}, c.dtype); };
  c.ops.enter(parent_of(o_proj.name));
  Saved s;
  s.q = dense(heads.query);
  s.k = dense(heads.key_value);
  s.v = dense(heads.key_value);
  if (q_norm) {
    s.q_raw = dense(heads.query);
    s.k_raw = dense(heads.key_value);
    s.q_statistics = q_norm->take_statistics(c.saved, s.q.numel() / q_norm->width());
    s.k_statistics = k_norm->take_statistics(c.saved, s.k.numel() / k_norm->width());
  }
  s.u =
      forward_all(c, {{q_proj, q_norm ? s.q_raw : s.q}, {k_proj, k_norm ? s.k_raw : s.k}, {v_proj, s.v}}, x);
  if (q_norm) {
    q_norm->forward(c, rows_of(*q_norm, s.q), s.q_statistics, rows_of(*q_norm, s.q_raw));
    k_norm->forward(c, rows_of(*k_norm, s.k), s.k_statistics, rows_of(*k_norm, s.k_raw));
  }
  c.ops.enter(parent_of(o_proj.name));
  p.rotate(c, s.q, D, 1);
  p.rotate(c, s.k, D, 1);
  s.y = dense(heads.query);
  s.lse = c.saved.take({heads.query, rows}, DType::f32);
  attend(c, s, p);
  s.o_u = o_proj.forward(c, y, s.y, residual);
  return s;
}

void SelfAttention::backward(Ctx& c, Tensor dx, Tensor dy, Tensor x, const Saved& s,
                             const Positions& p) const {
  Scope scratch(c.scratch);
  const std::int64_t rows = dy.rows(), D = heads.width;
  auto dense = [&](std::int64_t n) { return c.scratch.take({rows, n * D}, c.dtype); };
  Tensor dq = dense(heads.query), dk = dense(heads.key_value), dv = dense(heads.key_value);
  {
    Scope inner(c.scratch);
    Tensor da = dense(heads.query);
    Sum sum(c.ops, da);
    o_proj.backward(c, sum, dy, s.y, s.o_u);
    sum.run();
    c.ops.enter(parent_of(o_proj.name));
    c.ops.run(op::AttentionGrad{.dq = dq,
                                .dk = dk,
                                .dv = dv,
                                .dy = da,
                                .y = s.y,
                                .lse = s.lse,
                                .q = s.q,
                                .k = s.k,
                                .v = s.v,
                                .heads = heads,
                                .mask = mask(p),
                                .scores = {.scale = scale}});
  }
  p.rotate(c, dq, D, -1);
  p.rotate(c, dk, D, -1);
  if (q_norm) {
    auto through = [&](const Norm& norm, Tensor& d, Tensor raw, Tensor statistics) {
      Tensor into = c.scratch.take(d.shape, c.dtype);
      c.ops.run(op::Fill{into, 0});
      norm.backward(c, rows_of(norm, into), rows_of(norm, d), rows_of(norm, raw), statistics);
      d = into;
    };
    through(*q_norm, dq, s.q_raw, s.q_statistics);
    through(*k_norm, dk, s.k_raw, s.k_statistics);
  }
  Sum sum(c.ops, dx);
  backward_all(c, sum, {{q_proj, dq}, {k_proj, dk}, {v_proj, dv}}, x, s.u);
  sum.run();
}

void SelfAttention::visit(Visitor& v) {
  visit_all(v, {&q_proj, &k_proj, &v_proj});
  o_proj.visit(v);
  for (auto* norm : {&q_norm, &k_norm})
    if (*norm) (*norm)->visit(v);
}

}  // namespace ft
