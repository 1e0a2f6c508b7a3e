// Workspace of products with rows in FP8 (Term::fp8_rows), on GPUs and CPUs. It is planned with NullOps and
// reserved with Ops::reserve_dense before the first step.
#pragma once
#include <algorithm>

#include "engine/core/arena.h"
#include "engine/core/divide.h"
#include "engine/ops/products.h"

namespace ft {

// Products with rows in FP8 on a GPU need sizes and addresses of matrices that are multiples of this.
constexpr std::int64_t kFp8Unit = 16;

// Parts of a GPU's workspace for a product with rows in FP8, in bytes from its beginning. Each begins at a
// multiple of Arena::kAlign.
struct Fp8Room {
  static constexpr std::int64_t kRows = 8192;  // rows of a at a time

  std::int64_t rows;      // of a, at a time
  std::int64_t codes;     // (rows, depth) u8: codes of a
  std::int64_t scales;    // (rows) f32: scales of a
  std::int64_t matrix;    // (rows of the matrix, its columns) u8: its codes, if it is dense
  std::int64_t channels;  // (rows of the matrix) f32: its scales, if it is dense or has one for all
  std::int64_t ones;      // (columns of y) f32: 1, if the matrix is summed by rows
  std::int64_t turned;    // (columns of y, depth) u8: the transpose of the matrix, if it is summed by rows
  std::int64_t bytes;

  explicit Fp8Room(const Term& t) : Fp8Room(t, std::min(t.a.rows(), kRows)) {}
  Fp8Room(const Term& t, std::int64_t at_once) : rows(at_once) {
    const bool down = t.tb == Trans::no;
    std::int64_t end = 0;
    const auto take = [&](std::int64_t size) {
      const std::int64_t begin = end;
      end += round_up(size, Arena::kAlign);
      return begin;
    };
    codes = take(rows * t.depth());
    scales = take(4 * rows);
    matrix = take(t.fp8 ? 0 : t.b_rows() * t.b_cols());
    channels = take(!t.fp8 || t.fp8.scheme.rows == 0 ? 4 * t.b_rows() : 0);
    ones = take(down ? 4 * t.b_cols() : 0);
    turned = take(down ? t.b_rows() * t.b_cols() : 0);
    bytes = end;
  }
};

// Bytes that a CPU needs for a term's matrix: codes and scales, if it is dense.
inline std::int64_t fp8_matrix_bytes(const Term& t) {
  if (t.fp8) return 0;
  return round_up(t.b_rows() * t.b_cols(), Arena::kAlign) + round_up(4 * t.b_rows(), Arena::kAlign);
}
// Bytes that a CPU needs for each row at a time: the row's values and its sums, both in f32.
inline std::int64_t fp8_row_bytes(std::int64_t depth, std::int64_t columns) { return 4 * (depth + columns); }
constexpr std::int64_t kFp8CpuRows = 264;  // rows at a time on a CPU

}  // namespace ft
