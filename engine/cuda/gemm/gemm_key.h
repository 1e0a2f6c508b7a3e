// The values that the choice of an algorithm for a dense product depends on.
#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>

#include "engine/core/divide.h"
#include "engine/core/dtype.h"

namespace ft::cuda {

// y (m, n) = alpha op(a) (m, k) op(b) (k, n) + c, row-major. Operands of u8 are codes in FP8, of e4m3.
struct GemmKey {
  std::int64_t m, n, k;
  bool transpose_a, transpose_b;
  std::int64_t lda, ldb, ldc, ldy;  // elements from one row to the next
  DType operands, result;
  // bytes: the largest powers of two, up to a limit, that divide the addresses
  std::int64_t align_a, align_b, align_c, align_y;
  bool fast_sums = false;  // products in FP8: sums in fewer bits than f32

  bool fp8() const { return operands == DType::u8; }
  auto operator<=>(const GemmKey&) const = default;
  static void fields(auto& key, auto&& f) {
    f("m", key.m), f("n", key.n), f("k", key.k);
    f("transpose_a", key.transpose_a), f("transpose_b", key.transpose_b);
    f("lda", key.lda), f("ldb", key.ldb), f("ldc", key.ldc), f("ldy", key.ldy);
    f("operands", key.operands), f("result", key.result);
    f("align_a", key.align_a), f("align_b", key.align_b), f("align_c", key.align_c);
    f("align_y", key.align_y);
    f.if_set("fast_sums", key.fast_sums);
  }
};

// Rounds the number of rows of the stored a, which differs from batch to batch, up to five leading bits: at
// most a sixteenth more. There are few such numbers, however many lengths batches have.
inline GemmKey with_rounded_rows(GemmKey key) {
  std::int64_t& rows = key.transpose_a ? key.k : key.m;
  const int width = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(rows)));
  rows = round_up(rows, std::int64_t{1} << std::max(0, width - 5));
  return key;
}

}  // namespace ft::cuda
