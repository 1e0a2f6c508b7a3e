// Building blocks for kernels that consist of matrix products. Operands are "words" of 32 bits: one float or,
// if the target multiplies bf16 (kBf16Dot), two bf16 that are neighbours in the summed dimension. Other bf16,
// and f16 always, are widened to one float a word on the way into a panel. So one register tile serves all
// types; only multiply_add differs. A matrix x (rows, cols) becomes a right operand by interleave if its rows
// are summed over, by transpose if its columns are; it becomes a left operand by widen or is used in place.
#pragma once
#include <type_traits>

#include "engine/cpu/kernels/kernels.h"
#include "engine/cpu/kernels/vec.h"

namespace ft::cpu::FT_TARGET {
namespace {

using i64 = std::int64_t;
using Word = std::uint32_t;
template <class T>
constexpr i64 kPack = 1;  // elements a word
template <>
constexpr i64 kPack<bf16> = kBf16Dot ? 2 : 1;

// The element type of words. Widened types use the products of f32, so that no code is duplicated.
template <class T>
using WordType = std::conditional_t<kPack<T> == 2, T, float>;

inline constexpr i64 ceil_div(i64 a, i64 b) { return (a + b - 1) / b; }
inline constexpr i64 round_up(i64 a, i64 b) { return ceil_div(a, b) * b; }
inline i64 smaller(i64 a, i64 b) { return a < b ? a : b; }
inline constexpr i64 larger(i64 a, i64 b) { return a > b ? a : b; }

// c + a b, word by word.
template <class T>
inline Vec multiply_add(Vec c, WordVec a, WordVec b) {
  if constexpr (kPack<T> == 2)
    return dot_pairs(T{}, c, a, b);
  else
    return fma(as_floats(a), as_floats(b), c);
}

// Loads kLanes words of one row of elements.
template <class T>
inline WordVec load_row(const T* p) {
  if constexpr (kPack<T> == 2)
    return load_pairs(p);
  else
    return as_words(load(p));
}
// Loads words of the first n elements of a row, completed with zeros.
template <class T>
inline WordVec load_row(const T* p, i64 n) {
  if constexpr (kPack<T> == 2)
    return load_pairs(p, n);
  else
    return as_words(load(p, n < 0 ? 0 : smaller(n, kLanes)));
}

// Transposes up to kLanes x kLanes words: row i of x becomes column i of y. Reads `rows` rows of x with
// `count` elements each. Writes full rows of y up to `words`, with zeros after the end of x.
template <class T>
inline void transpose_block(Word* y, i64 ldy, const T* x, i64 ldx, i64 rows, i64 count, i64 words) {
  WordVec r[kLanes];
  if (rows >= kLanes && count >= kLanes * kPack<T>) {
    for (int i = 0; i < kLanes; ++i) r[i] = load_row(x + i * ldx);
  } else {
    for (int i = 0; i < kLanes; ++i) r[i] = i < rows ? load_row(x + i * ldx, count) : as_words(zero());
  }
  transpose_in_registers(r);
  if (words >= kLanes) {
    for (int i = 0; i < kLanes; ++i) store_words(y + i * ldy, r[i]);
  } else {
    for (int i = 0; i < kLanes; ++i)
      if (i < words) store_words(y + i * ldy, r[i]);
  }
}

// x (rows, cols) elements -> y (ceil(cols / kPack), rows) words. Rows of y are written up to the next
// multiple of kLanes, with zeros, so ldy is at least that.
template <class T>
inline void transpose(Word* y, i64 ldy, const T* x, i64 ldx, i64 rows, i64 cols) {
  constexpr i64 P = kPack<T>;
  for (i64 k = 0; k < cols; k += kLanes * P)
    for (i64 i = 0; i < rows; i += kLanes) {
      for (i64 r = 0; r < kLanes; ++r)  // more rows than the hardware prefetcher follows
        __builtin_prefetch(x + (i + r) * ldx + k + 4 * kLanes * P);
      transpose_block(y + k / P * ldy + i, ldy, x + i * ldx + k, ldx, rows - i, cols - k,
                      ceil_div(cols - k, P));
    }
}

// x (rows, cols) elements -> y (ceil(rows / kPack), cols) words: neighbouring rows share words. Rows of y are
// written up to the next multiple of kLanes, with zeros.
template <class T>
inline void interleave(Word* y, i64 ldy, const T* x, i64 ldx, i64 rows, i64 cols) {
  constexpr i64 P = kPack<T>;
  for (i64 r = 0; r < rows; r += P, y += ldy)
    for (i64 c = 0; c < cols; c += kLanes) {
      const T* p = x + r * ldx + c;
      const i64 n = smaller(kLanes, cols - c);
      for (i64 e = 0; e < P; ++e)  // rows are too far apart for the hardware prefetcher
        __builtin_prefetch(p + (16 * P + e) * ldx);
      if constexpr (P == 2)
        store_words(y + c, r + 1 < rows ? load_pair_rows(p, p + ldx, n) : load_pair_rows(p, n));
      else
        store_words(y + c, as_words(n == kLanes ? load(p) : load(p, n)));
    }
}

// x (rows, cols) elements -> y (rows, ceil(cols / kPack)) words, the order of a left operand. Rows of y are
// written up to the next multiple of kLanes, with zeros.
template <class T>
inline void widen(Word* y, i64 ldy, const T* x, i64 ldx, i64 rows, i64 cols) {
  constexpr i64 P = kPack<T>, kStep = kLanes * P;
  for (i64 r = 0; r < rows; ++r, x += ldx, y += ldy) {
    i64 c = 0;
    for (; c + kStep <= cols; c += kStep) store_words(y + c / P, load_row(x + c));
    if (c < cols) store_words(y + c / P, load_row(x + c, cols - c));
  }
}

// Stores rows a and b of kLanes columns of a right operand for products of T: one row of words if a word
// holds two elements, else two rows, ldy apart.
template <class T>
inline void store_pair(Word* y, i64 ldy, Vec a, Vec b) {
  if constexpr (kPack<T> == 2) {
    store_words(y, pair_rows(narrow_rows(T{}, a, b)));
  } else {
    store_words(y, as_words(a));
    store_words(y + ldy, as_words(b));
  }
}

}  // namespace
}  // namespace ft::cpu::FT_TARGET
