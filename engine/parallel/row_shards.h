// Megatron's sequence parallelism (Korthikanti et al., "Reducing Activation Recomputation in Large
// Transformer Models", 2022). T ranks that share each layer have all N rows within attention and MLP only.
// In the residual stream between them, with its norms and dropouts, each has N / T rows and what is kept of
// them. What a layer reads is gathered, and the parts of its result are added up and scattered in one:
// together as many bytes as the sum that they replace.
#pragma once
#include <string_view>

#include "engine/core/batch.h"
#include "engine/pass/context.h"

namespace ft {

// The batch with as many tokens more, a sequence without targets, as make a multiple of n.
Batch filled_up(Batch, std::int64_t n);

// Rows of the residual stream, in c.shards: those of all ranks (in scratch memory), and the rank's of all.
Tensor gather_rows(Ctx&, Tensor own, std::string_view of);
Tensor own_rows(Ctx&, Tensor all);

// While it lives random numbers are those of all rows.
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

// A layer between two steps of the residual stream: while it lives the layer computes on all rows, and what
// ranks would add up stays parts. Without c.shards nothing happens.
class LayerRows {
 public:
  // of: the layer's module, for messages.
  LayerRows(Ctx& c, std::string_view of) : c_(c), of_(of), numbers_(c) { c.parts_stay = c.shards; }
  ~LayerRows() { c_.parts_stay = false; }

  // What the layer reads, for the rank's rows.
  Tensor all(Tensor own) { return c_.shards && own ? gather_rows(c_, own, of_) : own; }
  // Where the layer puts what becomes `own`, and a residual that it adds by itself.
  Tensor parts(Tensor own);
  Tensor residual(Tensor x) const { return c_.shards ? Tensor{} : x; }
  // own = the rank's rows of the sum of everybody's parts, plus the residual.
  void add_up(Tensor own, Tensor parts, Tensor residual = {});

 private:
  Ctx& c_;
  std::string_view of_;
  WholeRows numbers_;
};

}  // namespace ft
