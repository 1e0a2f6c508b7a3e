// Megatron's sequence parallelism (Korthikanti et al., "Reducing Activation Recomputation in Large
// Transformer Models", 2022). T ranks that share each layer have all N rows only within attention and MLP. In
// the residual stream between them, with its norms and dropouts, each rank has N / T rows, and keeps
// activations of these only. A layer's input is gathered; the partial sums of its result are added up and
// scattered in one operation. Together this sends as many bytes as the all-reduce that it replaces.
#pragma once
#include <string_view>

#include "engine/core/batch.h"
#include "engine/ops/ops.h"
#include "engine/pass/context.h"

namespace ft {

// The batch with a further sequence without targets, which makes the number of tokens a multiple of n.
Batch filled_up(Batch, std::int64_t n);

// Rows of the residual stream, if c.shards is set: gather_rows returns the rows of all ranks, in scratch
// memory; own_rows returns this rank's rows of a tensor with all of them. of: a module, for messages.
Tensor gather_rows(Ctx&, Tensor own, std::string_view of);
Tensor own_rows(Ctx&, Tensor all);
// Takes scratch memory for all rows; `own` is this rank's part.
Tensor room_for_all_rows(Ctx&, Tensor own);
// own = this rank's rows of the sum of all ranks' parts.
void add_up_rows(Ctx&, Tensor own, Tensor parts, std::string_view of);

// While it lives, ranks shard the rows of the residual stream, if the grid says so.
class ShardedStream {
 public:
  explicit ShardedStream(Ctx& c) : c_(c), before_(c.shards) {
    c.shards = c.grid && c.grid->shape.shards_rows;
  }
  ~ShardedStream() { c_.shards = before_; }
  ShardedStream(const ShardedStream&) = delete;
  ShardedStream& operator=(const ShardedStream&) = delete;

 private:
  Ctx& c_;
  bool before_;
};

// While it lives, random numbers are those for all rows.
class WholeRows {
 public:
  explicit WholeRows(Ctx& c) : c_(c), numbers_(c.numbers) {
    if (c.shards) c.numbers = {};
  }
  ~WholeRows() { c_.numbers = numbers_; }
  WholeRows(const WholeRows&) = delete;
  WholeRows& operator=(const WholeRows&) = delete;

 private:
  Ctx& c_;
  RowNumbers numbers_;
};

// While it lives, a layer computes on all rows, and its Linears leave partial sums to the caller.
class PartialSums {
 public:
  explicit PartialSums(Ctx& c) : c_(c), numbers_(c) { c.parts_stay = true; }
  ~PartialSums() { c_.parts_stay = false; }
  PartialSums(const PartialSums&) = delete;
  PartialSums& operator=(const PartialSums&) = delete;

 private:
  Ctx& c_;
  WholeRows numbers_;
};

// The ends of the residual stream: the embedding makes all rows, and the head reads all rows. Without
// c.shards this rank has all rows, and f gets and returns them unchanged.

// Calls f(), which makes all rows (rows, columns), and returns this rank's rows, the only ones that c.saved
// keeps. Sets c.numbers to the numbers of these rows.
Tensor rows_of_rank(Ctx& c, std::int64_t rows, std::int64_t columns, const auto& f) {
  if (!c.shards) return f();
  const std::int64_t n = rows / c.tensor()->size();
  const Tensor own = c.save(n, columns);
  c.numbers = {n * c.tensor()->rank()};
  Scope forget(c.saved);
  const WholeRows whole(c);
  c.ops.copy(own, own_rows(c, f()));
  return own;
}

// Returns this rank's rows of f(all rows of x), in c.scratch. The result has x's shape.
Tensor through_all_rows(Ctx& c, Tensor x, std::string_view of, const auto& f) {
  if (!c.shards) return f(x);
  const Tensor y = c.temporary(x.rows(), x.cols());
  Scope scratch(c.scratch);
  const WholeRows whole(c);
  c.ops.copy(y, own_rows(c, f(gather_rows(c, x, of))));
  return y;
}

// Calls f(all rows of x).
void with_all_rows(Ctx& c, Tensor x, std::string_view of, const auto& f) {
  const WholeRows whole(c);
  f(c.shards ? gather_rows(c, x, of) : x);
}

}  // namespace ft
