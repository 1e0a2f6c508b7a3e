// Megatron's sequence parallelism (Korthikanti et al., "Reducing Activation Recomputation in Large
// Transformer Models", 2022). T ranks that share each layer have all N rows only within attention and MLP. In
// the residual stream between them, with its norms and dropouts, each rank has N / T rows, and keeps
// activations of these only. A layer's input is gathered; the partial sums of its result are added up and
// scattered in one operation. Together this sends as many bytes as the all-reduce that it replaces.
#pragma once
#include <string_view>

#include "engine/core/batch.h"
#include "engine/pass/context.h"

namespace ft {

// The batch with a further sequence without targets, which makes the number of tokens a multiple of n.
Batch filled_up(Batch, std::int64_t n);

// Rows of the residual stream, if c.shards is set: gather_rows returns the rows of all ranks, in scratch
// memory; own_rows returns this rank's rows of a tensor with all of them.
Tensor gather_rows(Ctx&, Tensor own, std::string_view of);
Tensor own_rows(Ctx&, Tensor all);

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

// A layer between two steps of the residual stream. While it lives, the layer computes on all rows, and
// partial sums are not added up. Without c.shards it does nothing.
class LayerRows {
 public:
  // of: the layer's module, for messages.
  LayerRows(Ctx& c, std::string_view of) : c_(c), of_(of), numbers_(c) { c.parts_stay = c.shards; }
  ~LayerRows() { c_.parts_stay = false; }

  // Returns the layer's input: all rows, gathered from the rank's rows.
  Tensor all(Tensor own) { return c_.shards && own ? gather_rows(c_, own, of_) : own; }
  // parts: the tensor for the layer's partial sum, which add_up turns into `own`. residual: the residual that
  // the layer adds itself; empty if add_up does.
  Tensor parts(Tensor own);
  Tensor residual(Tensor x) const { return c_.shards ? Tensor{} : x; }
  // own = this rank's rows of the sum of all ranks' parts, plus the residual.
  void add_up(Tensor own, Tensor parts, Tensor residual = {});

 private:
  Ctx& c_;
  std::string_view of_;
  WholeRows numbers_;
};

}  // namespace ft
