// Right operands in 4 bits: decoded a few rows at a time into a buffer in the first-level cache, and from
// there brought into a panel as any other operand. The elements are those of a dense matrix, value *
// absmax in f32 rounded once to T, so that a product has the same bits as one with that matrix.
#pragma once
#include "engine/cpu/kernels/tile.h"

namespace ft::cpu::FT_TARGET {
namespace {

inline float absmax_of(const FourBitOperand& q, i64 block) {
  if (q.absmax != nullptr) return q.absmax[block];
  return nested_value(q.nested_map[q.absmax_codes[block]], q.nested_absmax[block / kNestedBlock],
                      q.nested_offset);
}

// Elements [at, at + n) of one block.
template <class T>
inline void decode_in_block(T* to, const FourBitOperand& q, i64 at, i64 n, float absmax) {
  if (at % 2 != 0) {  // the low half of a byte
    from_float(*to++, q.values.of[four_bit_code(q.codes, at++)] * absmax);
    --n;
  }
  const Table scaled = table(q.values.of, absmax);
  const std::uint8_t* codes = q.codes + at / 2;
  i64 i = 0;
  for (; i + kLanes <= n; i += kLanes) store(to + i, look_up(scaled, codes + i / 2));
  if (i == n) return;
  std::uint8_t last[kLanes / 2] = {};
  __builtin_memcpy(last, codes + i / 2, static_cast<std::size_t>((n - i + 1) / 2));
  store(to + i, look_up(scaled, last), n - i);
}

template <class T>
inline void decode(T* to, const FourBitOperand& q, i64 at, i64 n) {
  while (n > 0) {
    const i64 block = at / q.block, here = smaller(n, (block + 1) * q.block - at);
    decode_in_block(to, q, at, here, absmax_of(q, block));
    to += here;
    at += here;
    n -= here;
  }
}

// Rows [from, from + count) of op(b), columns [col, col + cols), at most kTile, to `to`, ld words apart.
template <class T>
inline void pack_four_bit(Word* to, i64 ld, const ProductTerm& t, i64 from, i64 count, i64 col, i64 cols) {
  constexpr i64 kStep = kLanes * 4;  // of the summed dimension: whole words, whole vectors
  alignas(64) T dense[kTile * kStep];
  for (i64 k = 0; k < count; k += kStep) {
    const i64 n = smaller(kStep, count - k);
    Word* part = to + k / kPack<T> * ld;
    if (t.b_transposed) {
      for (i64 c = 0; c < cols; ++c) decode(dense + c * kStep, *t.four_bit, (col + c) * t.ldb + from + k, n);
      transpose(part, ld, dense, kStep, cols, n);
    } else {
      for (i64 r = 0; r < n; ++r) decode(dense + r * kTile, *t.four_bit, (from + k + r) * t.ldb + col, cols);
      interleave(part, ld, dense, kTile, n, cols);
    }
  }
}

}  // namespace
}  // namespace ft::cpu::FT_TARGET
