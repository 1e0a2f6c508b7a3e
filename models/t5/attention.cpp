#include "models/t5/attention.h"

namespace ft::t5 {

Attention::Saved Attention::forward(Ctx& c, Tensor y, Tensor x, Tensor residual, const Over& over) const {
  const std::int64_t rows = x.rows(), keys = over.memory.rows(), width = heads.query * heads.width;
  c.ops.enter(parent_of(o.name));
  Saved s;
  s.q = c.saved.take({rows, width}, c.dtype);
  s.k = c.saved.take({keys, width}, c.dtype);
  s.v = c.saved.take({keys, width}, c.dtype);
  if (over.cross()) {
    s.u = q.forward(c, s.q, x);
    s.memory_u = forward_all(c, {{k, s.k}, {v, s.v}}, over.memory);
  } else {
    s.u = forward_all(c, {{q, s.q}, {k, s.k}, {v, s.v}}, x);
  }
  c.ops.enter(parent_of(o.name));
  s.y = c.saved.take({rows, width}, c.dtype);
  s.lse = c.saved.take({heads.query, rows}, DType::f32);
  c.ops.run(op::Attention{.y = s.y,
                          .lse = s.lse,
                          .q = s.q,
                          .k = s.k,
                          .v = s.v,
                          .heads = heads,
                          .mask = over.mask,
                          .scores = over.scores});
  s.o_u = o.forward(c, y, s.y, residual);
  return s;
}

void Attention::backward(Ctx& c, Tensor dx, Tensor dy, Tensor x, const Saved& s, const Over& over) const {
  Scope scratch(c.scratch);
  Tensor dq = c.scratch.take(s.q.shape, c.dtype), dk = c.scratch.take(s.k.shape, c.dtype),
         dv = c.scratch.take(s.v.shape, c.dtype);
  {
    Scope inner(c.scratch);
    Tensor da = c.scratch.take(s.y.shape, c.dtype);
    Sum sum(c.ops, da);
    o.backward(c, sum, dy, s.y, s.o_u);
    sum.run();
    c.ops.enter(parent_of(o.name));
    c.ops.run(op::AttentionGrad{.dq = dq,
                                .dk = dk,
                                .dv = dv,
                                .dbias = over.dbias,
                                .dy = da,
                                .y = s.y,
                                .lse = s.lse,
                                .q = s.q,
                                .k = s.k,
                                .v = s.v,
                                .heads = heads,
                                .mask = over.mask,
                                .scores = over.scores});
  }
  Sum own(c.ops, dx), other(c.ops, over.d_memory, over.d_memory);
  if (over.cross()) {
    q.backward(c, own, dq, x, s.u);
    backward_all(c, other, {{k, dk}, {v, dv}}, over.memory, s.memory_u);
  } else {
    backward_all(c, own, {{q, dq}, {k, dk}, {v, dv}}, x, s.u);
  }
  own.run();
  other.run();
}

void Attention::keep(Ctx& c, Tensor memory, const KvCache::Layer& cache, Tensor rows) const {
  Scope scratch(c.scratch);
  const Linear* made[] = {&k, &v};
  const Tensor kept[] = {cache.k, cache.v};
  for (int i = 0; i < 2; ++i) {
    Scope forget(c.saved);
    Tensor t = c.scratch.take({memory.rows(), heads.query * heads.width}, c.dtype);
    made[i]->forward(c, t, memory);
    c.ops.run(op::ScatterRows{.y = kept[i], .x = t, .rows = rows});
  }
}

void Attention::extend(Ctx& c, Tensor y, Tensor x, Tensor residual, const KvCache::Layer& cache, Tensor rows,
                       const KeyRanges& seen, Tensor bias) const {
  if (rows) keep(c, x, cache, rows);
  Scope scratch(c.scratch);
  Tensor query = c.scratch.take({x.rows(), heads.query * heads.width}, c.dtype);
  Tensor attended = c.scratch.take(query.shape, c.dtype);
  q.forward(c, query, x);
  c.ops.run(op::AttentionRanges{.y = attended,
                                .q = query,
                                .k = cache.k,
                                .v = cache.v,
                                .heads = heads,
                                .ranges = seen,
                                .scores = {.bias = bias}});
  o.forward(c, y, attended, residual);
}

void Attention::cut(TensorRank t) {
  require_heads(heads.query, "num_heads", t);
  for (Linear* l : {&q, &k, &v}) l->share(Cut::columns, t);
  o.share(Cut::rows, t);
  all_heads = heads.query;
  heads.query = heads.key_value = all_heads / t.size;
  first_head = heads.query * t.rank;
}

void Attention::visit(Visitor& visitor) {
  visit_all(visitor, {&q, &k, &v});
  o.visit(visitor);
}

}  // namespace ft::t5
