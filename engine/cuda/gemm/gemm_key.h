// All that the choice of an algorithm for a dense product depends on.
#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>

#include "engine/core/divide.h"
#include "engine/core/dtype.h"

namespace ft::cuda {

// y (m, n) = alpha op(a) (m, k) op(b) (k, n) + c, row-major.
struct GemmKey {
  std::int64_t m, n, k;
  bool transpose_a, transpose_b;
  std::int64_t lda, ldb, ldc, ldy;  // elements from a row to the next
  DType operands, result;
  std::int64_t align_a, align_b, align_c, align_y;  // bytes: powers of two that divide the addresses

  auto operator<=>(const GemmKey&) const = default;
  static void fields(auto& key, auto&& f) {
    f("m", key.m), f("n", key.n), f("k", key.k);
    f("transpose_a", key.transpose_a), f("transpose_b", key.transpose_b);
    f("lda", key.lda), f("ldb", key.ldb), f("ldc", key.ldc), f("ldy", key.ldy);
    f("operands", key.operands), f("result", key.result);
    f("align_a", key.align_a), f("align_b", key.align_b), f("align_c", key.align_c);
    f("align_y", key.align_y);
  }
};

// Rounds up the rows of a as it lies, which differ from batch to batch, to five leading bits: at most a
// sixteenth more. However many lengths batches have, these are few.
inline GemmKey with_rounded_rows(GemmKey key) {
  std::int64_t& rows = key.transpose_a ? key.k : key.m;
  const int width = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(rows)));
  rows = round_up(rows, std::int64_t{1} << std::max(0, width - 5));
  return key;
}

}  // namespace ft::cuda
