// Rows that several sequences begin with, such as a prompt and two answers to it: everything is computed for
// them once, but attention sees each sequence whole, with copies of what the others have already.
#pragma once
#include <span>

#include "engine/core/batch.h"
#include "engine/pass/context.h"

namespace ft {

struct SharedRows {
  std::span<const std::int32_t> starts;  // of the whole sequences; empty: no row is shared
  Tensor rows;                           // (whole) i32: which row each of theirs is
  Tensor first;                          // (rows) i32: where each row comes first among them
  Tensor again, row_again;               // (copies) i32: where rows come again, and which they are

  explicit operator bool() const { return !starts.empty(); }
  std::int64_t whole() const { return rows.numel(); }

  // The whole sequences' rows of x, in c.scratch; copies are zeros where they are `once`.
  Tensor spread(Ctx&, Tensor x, bool once = false) const;
  // y = of each row its first value of x.
  void take_first(Ctx&, Tensor y, Tensor x) const;
  // y = of each row the sum of all its values of x.
  void add_up(Ctx&, Tensor y, Tensor x) const;
};

// Taken from c.saved; starts is valid as long as the batch.
SharedRows upload_shared(Ctx&, const Batch&);

}  // namespace ft
