// Products of a few rows with a coded matrix, row by row of the matrix: vectors of its codes are used in
// memory order, nothing is transposed, and one table serves a block of 4-bit codes. This is about twice as
// fast as few_rows.h, but sums have another order, so it is for generation whose results need not have the
// bits of larger products (ProductCall::any_order). 4-bit elements have the values of coded.h. 8-bit codes
// and FP8, which every type holds exactly, are summed without scales, run by run, and the sums are scaled;
// these elements are therefore not rounded to T. A row's sums do not depend on the other rows.
#pragma once
#include "engine/cpu/kernels/coded.h"
#include "engine/cpu/kernels/parts.h"

namespace ft::cpu::FT_TARGET {
namespace {

constexpr i64 kRun = 64;         // elements of a row at a time, all in one block
constexpr int kRowsAbreast = 4;  // rows of the matrix: independent chains of sums

// Arranges words of x in the order in which a run of codes becomes elements.
template <class T>
inline void arrange(Word* to, const Word* x, i64 count, const FourBitOperand&) {
  for (i64 i = 0; i < count / kPack<T>; i += kRun / kPack<T>)
    if constexpr (kPack<T> == 2)
      split_pairs(T{}, to + i, x + i);
    else
      __builtin_memcpy(to + i, x + i, kRun * sizeof(Word));
}
template <class T>
inline void arrange(Word* to, const Word* x, i64 count, const Fp8Operand&) {
  __builtin_memcpy(to, x, static_cast<std::size_t>(count / kPack<T>) * sizeof(Word));
}
template <class T>
inline void arrange(Word* to, const Word* x, i64 count, const Int8Operand&) {
  if constexpr (kPack<T> == 2)
    for (i64 i = 0; i < count / kPack<T>; i += kLanes) pair_halves(T{}, to + i, x + i);
  else
    __builtin_memcpy(to, x, static_cast<std::size_t>(count) * sizeof(Word));
}

// acc[r] += the products of a run of codes with x, lane by lane; rows of x are kDepth words apart.
template <class T, int Rows>
[[gnu::always_inline]] inline void add_words(Vec (&acc)[Rows], const Word* x, WordVec w) {
#pragma GCC unroll 4
  for (int r = 0; r < Rows; ++r) acc[r] = multiply_add<T>(acc[r], load_words(x + r * kDepth), w);
}
template <class T, int Rows>
[[gnu::always_inline]] inline void add_run(Vec (&acc)[Rows], const Word* x, const FourBitOperand& q,
                                           const std::uint8_t* codes, float scale) {
  const Table scaled = table(q.values.of, scale);
  if constexpr (kPack<T> == 2) {
    const WordVec values = pair_table(T{}, scaled), both = load_bytes(T{}, codes);
    add_words<T>(acc, x, look_up_pairs(T{}, values, shifted_right(both, 4)));  // the first code of each byte
    add_words<T>(acc, x + kLanes, look_up_pairs(T{}, values, both));
  } else {
#pragma GCC unroll 8
    for (i64 i = 0; i < kRun; i += kLanes)
      add_words<T>(acc, x + i, as_words(rounded(T{}, look_up(scaled, codes + i / 2))));
  }
}
inline Vec load_values(const std::int8_t* codes) { return load_signed(codes); }
inline Vec load_values(const std::uint8_t* codes) { return load_e4m3(codes); }  // in the bias of f16
template <class T>
inline WordVec load_value_pairs(T type, const std::int8_t* codes) {
  return pair_halves(type, load_values(codes), load_values(codes + kLanes));
}
template <class T>
inline WordVec load_value_pairs(T type, const std::uint8_t* codes) {
  return load_e4m3_pairs(type, codes);
}
template <class T, int Rows>
[[gnu::always_inline]] inline void add_run(Vec (&acc)[Rows], const Word* x, const auto&, const auto* codes,
                                           float scale) {
  Vec sums[Rows];
#pragma GCC unroll 4
  for (Vec& v : sums) v = zero();
#pragma GCC unroll 8
  for (i64 i = 0; i < kRun; i += kLanes * kPack<T>)
    if constexpr (kPack<T> == 2)
      add_words<T>(sums, x + i / 2, load_value_pairs(T{}, codes + i));
    else
      add_words<T>(sums, x + i, as_words(load_values(codes + i)));
#pragma GCC unroll 4
  for (int r = 0; r < Rows; ++r) acc[r] = fma(sums[r], splat(scale), acc[r]);
}

// Scales of some rows of a matrix: at[row * stride + block].
struct Scales {
  const float* at;
  i64 stride;
};
// A block of elements of a row with one scale has 2^block_bits elements.
template <class Q>
inline int block_bits(const Q& q) {
  return __builtin_ctzll(static_cast<unsigned long long>(q.block));
}
inline int block_bits(const Fp8Operand& q) { return q.col_bits; }
// Scales of blocks `first` to `last` of Columns rows from `row` on, of rows with ld elements; scales that are
// not floats of every row are written to `decoded`.
template <int Columns, i64 Most>
inline Scales scales_of(float (&)[Columns][Most], const Int8Operand& q, i64 row, i64 ld, i64 first, i64) {
  const i64 blocks = ld >> block_bits(q);
  return {q.scales + row * blocks + first, blocks};
}
template <int Columns, i64 Most>
inline Scales scales_of(float (&decoded)[Columns][Most], const Fp8Operand& q, i64 row, i64, i64 first,
                        i64 last) {
  for (i64 c = 0; c < Columns; ++c)
    for (i64 b = first; b <= last; ++b)
      decoded[c][b - first] = scale_of(q, row + c, b << q.col_bits) * kBiasOfF16;
  return {decoded[0], Most};
}
template <int Columns, i64 Most>
inline Scales scales_of(float (&decoded)[Columns][Most], const FourBitOperand& q, i64 row, i64 ld, i64 first,
                        i64 last) {
  const i64 blocks = ld >> block_bits(q);
  if (q.absmax != nullptr) return {q.absmax + row * blocks + first, blocks};
  for (i64 c = 0; c < Columns; ++c)
    for (i64 b = first; b <= last; ++b) decoded[c][b - first] = scale_of(q, (row + c) * blocks + b);
  return {decoded[0], Most};
}

// Elements [from, from + count) of each row of a matrix w; rows are ld elements apart.
template <class Q>
struct CodedRows {
  const Q& q;
  i64 ld, from, count;
  bool in_runs() const {
    return rows_begin_scales(q, ld) && block_bits(q) >= __builtin_ctzll(kRun) && from % kRun == 0 &&
           count % kRun == 0;
  }
};

// dots[r * ldd + c] = x w^T for Columns rows of w from row `col` on.
template <class T, int Rows, int Columns, class Q>
inline void dot_rows(float* dots, i64 ldd, const Word* x, const CodedRows<Q>& w, i64 col) {
  constexpr i64 kBytes = kRun / Codes<Q>::kOfWord * static_cast<i64>(sizeof(Word));  // bytes of a run's codes
  const int shift = block_bits(w.q);
  const auto* codes = Codes<Q>::at(w.q, col * w.ld + w.from);
  const i64 next = Codes<Q>::at(w.q, w.ld) - Codes<Q>::at(w.q, 0), runs = w.count / kRun;
  float decoded[Columns][kDepth * kPack<T> / kRun];
  const i64 first = w.from >> shift, last = (w.from + w.count - 1) >> shift;
  const Scales scales = scales_of(decoded, w.q, col, w.ld, first, last);
  Vec acc[Columns][Rows];
#pragma GCC unroll 4
  for (auto& column : acc)
#pragma GCC unroll 4
    for (Vec& v : column) v = zero();
  for (i64 i = 0; i < runs; ++i, codes += kBytes, x += kRun / kPack<T>) {
    const float* scale = scales.at + (((w.from + i * kRun) >> shift) - first);
#pragma GCC unroll 4
    for (int c = 0; c < Columns; ++c) {
      __builtin_prefetch(codes + (c + 8 * kRowsAbreast) * next, 0, 2);
      add_run<T>(acc[c], x, w.q, codes + c * next, scale[c * scales.stride]);
    }
  }
#pragma GCC unroll 4
  for (int c = 0; c < Columns; ++c)
#pragma GCC unroll 4
    for (int r = 0; r < Rows; ++r) dots[r * ldd + c] = sum(acc[c][r]);
}

// sums[g][r] lane i += x w^T for row col + g * kLanes + i of w, of `cols` rows, in runs; x's rows are `row`
// bytes apart.
template <class T, int Groups, int Rows, class Q>
inline void add_in_rows(Vec (&sums)[Groups][Rows], const std::byte* x, i64 row, const CodedRows<Q>& w,
                        i64 col, i64 cols) {
  constexpr i64 kColumns = Groups * kLanes;
  alignas(64) Word left[Rows * kDepth];
  alignas(64) float dots[Rows * kColumns] = {};
  for (int r = 0; r < Rows; ++r)
    arrange<T>(left + r * kDepth, reinterpret_cast<const Word*>(x + r * row), w.count, w.q);
  i64 c = 0;
  for (; c + kRowsAbreast <= cols && c < kColumns; c += kRowsAbreast)
    dot_rows<T, Rows, kRowsAbreast>(dots + c, kColumns, left, w, col + c);
  for (; c < cols && c < kColumns; ++c) dot_rows<T, Rows, 1>(dots + c, kColumns, left, w, col + c);
  for (int g = 0; g < Groups; ++g)
    for (int r = 0; r < Rows; ++r) sums[g][r] = sums[g][r] + load(dots + r * kColumns + g * kLanes);
}

}  // namespace
}  // namespace ft::cpu::FT_TARGET
