#include "models/t5/attention.h"

#include <utility>

#include "engine/layers/sum.h"
#include "engine/parallel/sequence_part.h"

namespace ft::t5 {
namespace {

// Returns the columns of the rank's heads from a bias (2 reach + 1, H).
Tensor own_columns(const Tensor& bias, const HeadsByRank& by) {
  return bias ? bias.columns(by.first(), by.first() + by.own().query) : bias;
}

Scores scores_of(Scores all, const HeadsByRank& by) {
  all.all_heads = all.all_heads > 0 ? all.all_heads : by.own().query * by.ranks();
  all.first_head += by.first();
  all.bias = own_columns(all.bias, by);
  return all;
}

// Sets other row numbers for random numbers while it lives.
class Renumbered {
 public:
  Renumbered(Ctx& c, RowNumbers now) : c_(c), before_(std::exchange(c.numbers, now)) {}
  ~Renumbered() { c_.numbers = before_; }
  Renumbered(const Renumbered&) = delete;
  Renumbered& operator=(const Renumbered&) = delete;

 private:
  Ctx& c_;
  RowNumbers before_;
};

}  // namespace

void Attention::attend(Ctx& c, Saved& s, const Over& over) const {
  s.lse = c.saved.take({heads.query, s.q.rows()}, DType::f32);
  c.ops.run(op::Attention{.y = s.y,
                          .lse = s.lse,
                          .q = s.q,
                          .k = s.k,
                          .v = s.v,
                          .heads = heads,
                          .mask = over.mask,
                          .scores = over.scores});
}

void Attention::attend_back(Ctx& c, Tensor dq, Tensor dk, Tensor dv, Tensor dy, const Saved& s,
                            const Over& over) const {
  c.ops.run(op::AttentionGrad{.dq = dq,
                              .dk = dk,
                              .dv = dv,
                              .dbias = over.dbias,
                              .dy = dy,
                              .y = s.y,
                              .lse = s.lse,
                              .q = s.q,
                              .k = s.k,
                              .v = s.v,
                              .heads = heads,
                              .mask = over.mask,
                              .scores = over.scores});
}

// Attends over the rows of all ranks that share them, with this rank's heads.
void Attention::attend_together(Ctx& c, Saved& s, const Over& over) const {
  over.parts->enter(parent_of(o.name));
  const HeadsByRank by(*over.parts, heads);
  for (Tensor* t : {&s.q, &s.k, &s.v}) {
    const Tensor all = c.saved.take({by.rows(*t), by.own().query * heads.width}, c.dtype);
    by.gather(c, all, *t);
    *t = all;
  }
  s.together = c.saved.take(s.q.shape, c.dtype);
  s.lse = c.saved.take({by.own().query, s.q.rows()}, DType::f32);
  c.ops.run(op::Attention{.y = s.together,
                          .lse = s.lse,
                          .q = s.q,
                          .k = s.k,
                          .v = s.v,
                          .heads = by.own(),
                          .mask = over.mask,
                          .scores = scores_of(over.scores, by)});
  by.give_back(c, s.y, s.together);
}

void Attention::attend_together_back(Ctx& c, Tensor dq, Tensor dk, Tensor dv, Tensor dy, const Saved& s,
                                     const Over& over) const {
  over.parts->enter(parent_of(o.name));
  const HeadsByRank by(*over.parts, heads);
  Scope scratch(c.scratch);
  const Tensor all_dq = c.scratch.take(s.q.shape, c.dtype), all_dk = c.scratch.take(s.k.shape, c.dtype),
               all_dv = c.scratch.take(s.v.shape, c.dtype), all_dy = c.scratch.take(s.q.shape, c.dtype);
  by.gather(c, all_dy, dy);
  c.ops.run(op::AttentionGrad{.dq = all_dq,
                              .dk = all_dk,
                              .dv = all_dv,
                              .dbias = own_columns(over.dbias, by),
                              .dy = all_dy,
                              .y = s.together,
                              .lse = s.lse,
                              .q = s.q,
                              .k = s.k,
                              .v = s.v,
                              .heads = by.own(),
                              .mask = over.mask,
                              .scores = scores_of(over.scores, by)});
  by.give_back(c, dq, all_dq);
  by.give_back(c, dk, all_dk);
  by.give_back(c, dv, all_dv);
}

Attention::Saved Attention::forward(Ctx& c, Tensor y, Tensor x, Tensor residual, const Over& over) const {
  const std::int64_t rows = x.rows(), keys = over.memory.rows(), width = heads.query * heads.width;
  c.ops.enter(parent_of(o.name));
  Saved s;
  Scope scratch(c.scratch);
  Arena& room = over.parts ? c.scratch : c.saved;
  s.q = room.take({rows, width}, c.dtype);
  s.k = room.take({keys, width}, c.dtype);
  s.v = room.take({keys, width}, c.dtype);
  if (over.cross()) {
    s.u = q.forward(c, s.q, x);
    const Renumbered keys_of(c, over.memory_rows);
    s.memory_u = forward_all(c, {{k, s.k}, {v, s.v}}, over.memory);
  } else {
    s.u = forward_all(c, {{q, s.q}, {k, s.k}, {v, s.v}}, x);
  }
  c.ops.enter(parent_of(o.name));
  s.y = c.saved.take({rows, width}, c.dtype);
  over.parts ? attend_together(c, s, over) : attend(c, s, over);
  s.o_u = o.forward(c, y, s.y, residual);
  return s;
}

void Attention::backward(Ctx& c, Tensor dx, Tensor dy, Tensor x, const Saved& s, const Over& over) const {
  Scope scratch(c.scratch);
  const Shape keys{over.memory.rows(), s.y.cols()};
  Tensor dq = c.scratch.take(s.y.shape, c.dtype), dk = c.scratch.take(keys, c.dtype),
         dv = c.scratch.take(keys, c.dtype);
  {
    Scope inner(c.scratch);
    Tensor da = c.scratch.take(s.y.shape, c.dtype);
    Sum sum(c.ops, da);
    o.backward(c, sum, dy, s.y, s.o_u);
    sum.run();
    c.ops.enter(parent_of(o.name));
    over.parts ? attend_together_back(c, dq, dk, dv, da, s, over) : attend_back(c, dq, dk, dv, da, s, over);
  }
  Sum own(c.ops, dx), other(c.ops, over.d_memory, over.d_memory);
  if (over.cross()) {
    q.backward(c, own, dq, x, s.u);
    const Renumbered keys_of(c, over.memory_rows);
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

void Attention::share_rows(std::int64_t ranks) const {
  if (heads.query % ranks == 0) return;
  refuse_row_share(ranks, str(ranks, " ranks cannot share ", heads.query,
                              " heads (num_heads) evenly; set a size that divides them"));
}

void Attention::visit(Visitor& visitor) {
  visit_all(visitor, {&q, &k, &v});
  o.visit(visitor);
}

}  // namespace ft::t5
