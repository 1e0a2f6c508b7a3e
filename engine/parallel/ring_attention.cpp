#include "engine/parallel/ring_attention.h"

#include <algorithm>
#include <utility>

#include "engine/ops/ops.h"

namespace ft {

// Starts of sequences within the chunk whose first row is `row`, counted from that row.
std::vector<std::int32_t> RingAttention::starts_within(std::int64_t row) const {
  std::vector<std::int32_t> starts{0};
  for (const std::int32_t s : mask_.starts)
    if (row < s && s < row + chunk_rows_) starts.push_back(static_cast<std::int32_t>(s - row));
  starts.push_back(static_cast<std::int32_t>(chunk_rows_));
  return starts;
}

std::optional<RingAttention::Pair> RingAttention::pair_of(int chunk, int from, int their_chunk) const {
  const std::int64_t m = chunk_rows_, window = mask_.window, query = first_row(ranks_.rank(), chunk),
                     key = first_row(from, their_chunk), end = key + m;
  if (key > query) return {};
  if (key == query)
    return Pair{chunk, true,  {chunk * m, chunk * m + m}, {chunk * m, chunk * m + m}, starts_within(query),
                {},    window};
  const auto next = std::upper_bound(mask_.starts.begin(), mask_.starts.end(), query);
  std::int64_t queries = std::min(*next - query, m), first = std::max<std::int64_t>(*std::prev(next), key);
  if (window > 0) {
    queries = std::min(queries, end - 1 + window - query);
    first = std::max(first, query - window + 1);
  }
  if (queries <= 0 || first >= end) return {};
  // columns of the first query's window that lie outside these keys
  const std::int64_t left = window - (query - first);
  const std::int64_t their_row = their_chunk * m + first - key;
  return Pair{chunk,
              false,
              {chunk * m, chunk * m + queries},
              {their_row, their_row + end - first},
              {0, static_cast<std::int32_t>(queries)},
              {0, static_cast<std::int32_t>(end - first)},
              window > 0 && left < queries ? left : 0};
}

void RingAttention::each_pair(int from, auto f) const {
  for (const int chunk : {0, 1})
    for (const int theirs : {chunk, 1 - chunk})
      if (const std::optional<Pair> p = pair_of(chunk, from, theirs)) f(*p);
}

Communicator::Ticket RingAttention::pass_on(Tensor out, Tensor in) {
  return ranks_.start([out, in](Communicator& ranks) {
    const int n = ranks.size();
    ranks.send_receive(out, (ranks.rank() + 1) % n, in, (ranks.rank() + n - 1) % n);
  });
}

void RingAttention::go_round(Tensor k, Tensor v, auto f) {
  Tensor here = take_both(k, k.dtype), next = take_both(k, k.dtype);
  c_.ops.copy(keys(here), k);
  c_.ops.copy(values(here), v);
  const int n = ranks_.size();
  for (int step = 0; step < n; ++step) {
    std::optional<Communicator::Ticket> under_way;
    if (step + 1 < n) under_way = pass_on(here, next);
    f(step, (ranks_.rank() + n - step) % n, here);
    if (under_way) ranks_.finish(*under_way);
    std::swap(here, next);
  }
}

// The lse of a pair's queries, (H, queries).
Tensor RingAttention::lse_of(const Tensor& lse, const Pair& p) const {
  const std::int64_t first = p.chunk * chunk_rows_;
  return lse.slice(p.chunk * heads_.query, (p.chunk + 1) * heads_.query)
      .columns(p.queries.begin - first, p.queries.end - first);
}

void RingAttention::forward(Tensor y, Tensor lse, Tensor q, Tensor k, Tensor v) {
  Scope scratch(c_.scratch);
  chunk_rows_ = q.rows() / 2;
  const Tensor sum = y.dtype == DType::f32 ? y : c_.scratch.take(y.shape, DType::f32);
  const Tensor part = c_.scratch.take({chunk_rows_, y.cols()}, y.dtype),
               part_lse = c_.scratch.take({heads_.query * chunk_rows_}, DType::f32);
  go_round(k, v, [&](int, int from, Tensor both) {
    each_pair(from, [&](const Pair& p) {
      const Tensor own = part.slice(0, p.queries.count()), to = p.queries.of(sum), to_lse = lse_of(lse, p);
      const Tensor own_lse(part_lse.data, DType::f32, {heads_.query, own.rows()});
      c_.ops.run(op::Attention{.y = own,
                               .lse = own_lse,
                               .q = p.queries.of(q),
                               .k = p.keys.of(keys(both)),
                               .v = p.keys.of(values(both)),
                               .heads = heads_,
                               .mask = p.mask(),
                               .scores = scores_});
      if (!p.diagonal)
        return c_.ops.run(op::MergeAttention{.y = to, .lse = to_lse, .other = own, .other_lse = own_lse});
      c_.ops.run(op::Cast{.y = to, .x = own});
      c_.ops.copy(to_lse, own_lse);
    });
  });
  if (sum.data != y.data) c_.ops.run(op::Cast{.y = y, .x = sum});
}

// Sends the gradients of a rank's keys around the ring with them, from the next rank back to the rank itself.
void RingAttention::backward(const Gradients& d, Tensor dy, Tensor y, Tensor lse, Tensor q, Tensor k,
                             Tensor v) {
  Scope scratch(c_.scratch);
  chunk_rows_ = q.rows() / 2;
  const Tensor dq = d.q.dtype == DType::f32 ? d.q : c_.scratch.take(d.q.shape, DType::f32);
  Tensor kept = take_both(k, DType::f32), here = take_both(k, DType::f32), next = take_both(k, DType::f32);
  const Tensor part_q = c_.scratch.take({chunk_rows_, q.cols()}, q.dtype),
               part_k = c_.scratch.take({chunk_rows_, k.cols()}, k.dtype),
               part_v = c_.scratch.take({chunk_rows_, v.cols()}, v.dtype),
               part_lse = c_.scratch.take({heads_.query * chunk_rows_}, DType::f32);
  for (const Tensor& sum : {dq, kept, here}) c_.ops.run(op::Fill{sum, 0});
  std::optional<Communicator::Ticket> under_way;
  const auto arrive = [&] {
    if (!under_way) return;
    ranks_.finish(*under_way);
    under_way.reset();
    std::swap(here, next);
  };
  go_round(k, v, [&](int step, int from, Tensor both) {
    each_pair(from, [&](const Pair& p) {
      const std::int64_t queries = p.queries.count(), n = p.keys.count();
      const Tensor own_lse(part_lse.data, DType::f32, {heads_.query, queries});
      c_.ops.copy(own_lse, lse_of(lse, p));
      c_.ops.run(op::AttentionGrad{.dq = part_q.slice(0, queries),
                                   .dk = part_k.slice(0, n),
                                   .dv = part_v.slice(0, n),
                                   .dy = p.queries.of(dy),
                                   .y = p.queries.of(y),
                                   .lse = own_lse,
                                   .q = p.queries.of(q),
                                   .k = p.keys.of(keys(both)),
                                   .v = p.keys.of(values(both)),
                                   .heads = heads_,
                                   .mask = p.mask(),
                                   .scores = scores_});
      arrive();
      const Tensor& sums = step == 0 ? kept : here;
      c_.ops.run(op::Add{p.queries.of(dq), part_q.slice(0, queries)});
      c_.ops.run(op::Add{p.keys.of(keys(sums)), part_k.slice(0, n)});
      c_.ops.run(op::Add{p.keys.of(values(sums)), part_v.slice(0, n)});
    });
    arrive();
    if (step > 0) under_way = pass_on(here, next);
  });
  arrive();
  c_.ops.run(op::Add{kept, here});
  if (dq.data != d.q.data) c_.ops.run(op::Cast{.y = d.q, .x = dq});
  c_.ops.run(op::Cast{.y = d.k, .x = keys(kept)});
  c_.ops.run(op::Cast{.y = d.v, .x = values(kept)});
}

}  // namespace ft
