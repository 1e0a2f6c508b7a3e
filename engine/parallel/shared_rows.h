// Rows that several sequences begin with, such as a prompt with two answers. Everything is computed once for
// them, but attention works on complete sequences, with copies of the shared rows.
#pragma once
#include <span>

#include "engine/core/batch.h"
#include "engine/pass/context.h"

namespace ft {

struct SharedRows {
  std::span<const std::int32_t> starts;  // of the complete sequences; empty: no row is shared
  Tensor rows;                           // (rows of complete sequences) i32: the row that each is a copy of
  Tensor first;                          // (rows) i32: index of each row's first copy
  Tensor again, row_again;               // (further copies) i32: index of each, and its row

  explicit operator bool() const { return !starts.empty(); }
  std::int64_t whole() const { return rows.numel(); }

  // Rows of x for the complete sequences, in c.scratch. once: further copies are zeros.
  Tensor spread(Ctx&, Tensor x, bool once = false) const;
  // y = the first copy of each row in x.
  void take_first(Ctx&, Tensor y, Tensor x) const;
  // y = the sum of all copies of each row in x.
  void add_up(Ctx&, Tensor y, Tensor x) const;
};

// Takes memory from c.saved; starts is valid as long as the batch.
SharedRows upload_shared(Ctx&, const Batch&);

}  // namespace ft
