// Right operands with codes of 4 or 8 bits, integers or FP8. An element is scale times the code's value in
// f32, rounded once to T. A product therefore has the same bits as one with the dense matrix of these
// elements.
//
// If a product sums over the matrix's columns, kLanes rows are decoded in parallel: words of their codes are
// transposed, 4 or 8 elements at once, and become words of elements in the order of the multiplication.
// Edges, and products that sum over rows, decode a few rows into a buffer in the first-level cache and then
// work as with a dense matrix.
#pragma once
#include "engine/cpu/kernels/four_bit.h"
#include "engine/cpu/kernels/fp8.h"
#include "engine/cpu/kernels/int8.h"

namespace ft::cpu::FT_TARGET {
namespace {

inline bool is_coded(const ProductTerm& t) { return t.four_bit || t.int8 || t.fp8; }
inline bool has_codes(const ProductCall& call) {
  for (i64 i = 0; i < call.count; ++i)
    if (is_coded(call.terms[i])) return true;
  return false;
}
inline void with_codes(const ProductTerm& t, const auto& f) {
  if (t.four_bit) return f(*t.four_bit);
  t.int8 ? f(*t.int8) : f(*t.fp8);
}

// Returns true if a scale begins at this place of every row, and in words of codes.
template <class Q>
inline bool begins_scale(const Q& q, i64 column) {
  return (column & (q.block - 1)) == 0;
}
inline bool begins_scale(const Fp8Operand& q, i64 column) {
  return (column & ((i64{1} << q.col_bits) - 1)) == 0;
}
template <class Q>
inline bool rows_begin_scales(const Q& q, i64 ld) {
  return ld % q.block == 0;
}
inline bool rows_begin_scales(const Fp8Operand&, i64) { return true; }
// The scales of element `column` of kLanes rows from `row` on, ld elements apart.
template <class Q>
inline Vec scales_of_rows(const Q& q, i64 row, i64 ld, i64 column) {
  alignas(64) float s[kLanes];
  const i64 blocks = ld / q.block, first = row * blocks + column / q.block;
  for (i64 i = 0; i < kLanes; ++i) s[i] = scale_of(q, first + i * blocks);
  return load(s);
}
inline Vec scales_of_rows(const Fp8Operand& q, i64 row, i64, i64 column) {
  alignas(64) float s[kLanes];
  for (i64 i = 0; i < kLanes; ++i) s[i] = scale_of(q, row + i, column);
  return load(s);
}

// Cuts elements [from, from + count) of rows into `lead` elements before the first word of codes, `turns`
// elements in complete words of kLanes for every row, and a rest. Rows that do not begin with a scale have no
// turns.
struct CodedRun {
  i64 lead, turns;
};
template <class Q>
inline CodedRun coded_run(const Q& q, i64 ld, i64 from, i64 count) {
  constexpr i64 kCodes = Codes<Q>::kOfWord, kTurn = kLanes * kCodes;
  if (!rows_begin_scales(q, ld)) return {0, 0};
  const i64 lead = smaller(count, (kCodes - from % kCodes) % kCodes);
  return {lead, (count - lead) / kTurn * kTurn};
}

// Words of elements for products of T: kPack neighbours of a row each.
template <class T>
inline WordVec word_of(const Vec (&x)[kPack<T>]) {
  if constexpr (kPack<T> == 2)
    return pair_rows(narrow_rows(T{}, x[0], x[1]));
  else
    return as_words(rounded(T{}, x[0]));
}

// Calls f(k, g, words) with word k of row i of group g in lane i, for Groups of kLanes rows from `row` on, ld
// elements apart, and elements [from, from + count), which must be complete turns.
template <class T, int Groups, class Q>
[[gnu::always_inline]] inline void each_word(const Q& q, i64 row, i64 ld, i64 from, i64 count,
                                             const auto& f) {
  constexpr i64 kCodes = Codes<Q>::kOfWord, P = kPack<T>;
  const Codes<Q> values(q);
  // Position of the next rows' codes, which are prefetched in memory order.
  i64 next = row * ld + Groups * kLanes * (ld + from);
  Vec scale[Groups];
  for (i64 k = 0; k < count; k += kLanes * kCodes) {
    WordVec codes[Groups][kLanes];
    for (int g = 0; g < Groups; ++g) {
      for (i64 i = 0; i < kLanes; ++i) {
        const auto* p = Codes<Q>::at(q, (row + g * kLanes + i) * ld + from + k);
        codes[g][i] = load_words(reinterpret_cast<const Word*>(p));
      }
      transpose_in_registers(codes[g]);
    }
    for (i64 j = 0; j < kLanes; ++j) {
      const i64 at = from + k + j * kCodes;
      if (begins_scale(q, at) || k + j == 0)
        for (int g = 0; g < Groups; ++g) scale[g] = scales_of_rows(q, row + g * kLanes, ld, at);
      for (int g = 0; g < Groups; ++g, next += kLanes * kCodes)
        __builtin_prefetch(Codes<Q>::at(q, next), 0, 2);
#pragma GCC unroll 8
      for (int e = 0; e < kCodes; e += P)
#pragma GCC unroll 2
        for (int g = 0; g < Groups; ++g) {
          Vec x[P];
#pragma GCC unroll 2
          for (int p = 0; p < P; ++p) x[p] = values(codes[g][j], e + p) * scale[g];
          f((k + j * kCodes + e) / P, g, word_of<T>(x));
        }
    }
  }
}

// Packs rows [from, from + count) of op(b), columns [col, col + cols), at most kTile, to `to`, with rows of
// ld words; it decodes them in a buffer.
template <class T, class Q>
inline void pack_decoded(Word* to, i64 ld, const Q& q, const ProductTerm& t, i64 from, i64 count, i64 col,
                         i64 cols) {
  constexpr i64 kStep = kLanes * 4;  // in the summed dimension: complete words and vectors
  alignas(64) T dense[kTile * kStep];
  for (i64 k = 0; k < count; k += kStep) {
    const i64 n = smaller(kStep, count - k);
    Word* part = to + k / kPack<T> * ld;
    if (t.b_transposed) {
      for (i64 c = 0; c < cols; ++c) decode(dense + c * kStep, q, (col + c) * t.ldb + from + k, n);
      transpose(part, ld, dense, kStep, cols, n);
    } else {
      for (i64 r = 0; r < n; ++r) decode(dense + r * kTile, q, (from + k + r) * t.ldb + col, cols);
      interleave(part, ld, dense, kTile, n, cols);
    }
  }
}
template <class T, class Q>
inline void pack_coded(Word* to, i64 ld, const Q& q, const ProductTerm& t, i64 from, i64 count, i64 col,
                       i64 cols) {
  constexpr i64 P = kPack<T>;
  i64 c = 0;
  if (const CodedRun run = coded_run(q, t.ldb, from, count); t.b_transposed && run.turns > 0) {
    for (; c + kLanes <= cols; c += kLanes)
      each_word<T, 1>(q, col + c, t.ldb, from + run.lead, run.turns,
                      [&](i64 k, int, WordVec w) { store_words(to + (run.lead / P + k) * ld + c, w); });
    const i64 rest = run.lead + run.turns;
    pack_decoded<T>(to, ld, q, t, from, run.lead, col, c);
    pack_decoded<T>(to + rest / P * ld, ld, q, t, from + rest, count - rest, col, c);
  }
  pack_decoded<T>(to + c, ld, q, t, from, count, col + c, cols - c);
}

}  // namespace
}  // namespace ft::cpu::FT_TARGET
