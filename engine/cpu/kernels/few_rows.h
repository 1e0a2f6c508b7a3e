// Products of a few rows with a matrix that is summed over its columns, y = x W^T: most of the work of
// generation. Reading W once from memory takes all the time, so W is not packed: kLanes of its rows are
// transposed in registers, kLanes words at a time. Sums have the order, and so the bits, of products.cpp.
#pragma once
#include "engine/cpu/kernels/in_rows.h"
#include "engine/cpu/kernels/tile.h"

namespace ft::cpu::FT_TARGET {
namespace {

constexpr i64 kFewRows = 4;    // with more rows, packing pays off
constexpr i64 kFewGroups = 2;  // of kLanes columns each: independent chains of sums
constexpr i64 kFewColumns = kFewGroups * kLanes;
static_assert(kTile % kFewColumns == 0);

inline bool is_few_rows(const ProductCall& call) {
  if (call.rows > kFewRows || call.y_transposed) return false;
  for (i64 i = 0; i < call.count; ++i)
    if (call.terms[i].a_transposed || !call.terms[i].b_transposed) return false;
  return true;
}

// Number of words that depths are a multiple of (Depths). With any_order, runs of codes are not cut.
template <class T>
i64 step_of_depths(const ProductCall& call) {
  return call.any_order && has_codes(call) ? kRun / kPack<T> : 1;
}

struct FewRows {
  const Part* parts;  // complete depths
  i64 count, rows, col, cols;
  bool add;        // add to the existing sums
  bool any_order;  // see ProductCall
};

// r[k] lane i: word k of row i of w.
template <class T>
[[gnu::always_inline]] inline void turned(WordVec (&r)[kLanes], const T* w, i64 ld) {
  if constexpr (kLanes == 8) {
    load_turned(r, w, ld);
  } else {
    for (int i = 0; i < kLanes; ++i) r[i] = load_row(w + i * ld);
    transpose_in_registers(r);
  }
}
// Does the same at an edge: reads `rows` rows and `count` elements.
template <class T>
inline void turned(WordVec (&r)[kLanes], const T* w, i64 ld, i64 rows, i64 count) {
  for (int i = 0; i < kLanes; ++i) r[i] = i < rows ? load_row(w + i * ld, count) : as_words(zero());
  transpose_in_registers(r);
}

// A few rows of x: word (r, k) is at data + r * row + k * step bytes.
struct Left {
  const std::byte* data;
  i64 row, step;
};

// acc[r] += x w^T for kLanes rows of w, from element k on, with one word of each lane's row at a time.
template <class T, int Rows>
[[gnu::always_inline]] inline void add_turned(Vec (&acc)[Rows], const Left& x, const WordVec (&w)[kLanes],
                                              i64 k, i64 words) {
  const std::byte* at = x.data + k / kPack<T> * x.step;
#pragma GCC unroll 16
  for (i64 j = 0; j < kLanes; ++j)
#pragma GCC unroll 4
    for (int r = 0; r < Rows && j < words; ++r)
      acc[r] = multiply_add<T>(acc[r], splat_word(word_at(at + r * x.row + j * x.step)), w[j]);
}

// acc[g][r] += x w^T over `count` elements, a multiple of a turn; row c of w is in lane c % kLanes of group c
// / kLanes. Sums of one column depend on each other, so the groups take turns, and all stay in registers. The
// `count` elements from `next` on are prefetched in memory order.
template <class T, i64 Turn, int Rows>
inline void add_turns(Vec (&sums)[kFewGroups][Rows], const Left& x, const T* w, i64 ld, i64 count,
                      const T* next) {
  constexpr i64 kStep = kLanes * kPack<T>, kLine = 64 / sizeof(T);
  Vec acc[kFewGroups][Rows];
  __builtin_memcpy(&acc, &sums, sizeof acc);
  for (i64 k = 0; k < count; k += Turn)
#pragma GCC unroll 4
    for (int g = 0; g < kFewGroups; ++g)
#pragma GCC unroll 4
      for (i64 i = 0; i < Turn; i += kStep, next += kLanes * kStep) {
#pragma GCC unroll 16
        for (i64 l = 0; l < kLanes * kStep; l += kLine) __builtin_prefetch(next + l, 0, 2);
        WordVec t[kLanes];
        turned(t, w + g * kLanes * ld + k + i, ld);
        add_turned<T>(acc[g], x, t, k + i, kLanes);
      }
  __builtin_memcpy(&sums, &acc, sizeof acc);
}

// Does the same with any count, and `cols` rows of w.
template <class T, int Rows>
inline void add_few(Vec (&acc)[kFewGroups][Rows], const Left& x, const T* w, i64 ld, i64 cols, i64 count,
                    const T* next) {
  constexpr i64 kStep = kLanes * kPack<T>, kLine = larger(kStep, 64 / sizeof(T));
  // Rows whose distance is a multiple of 4096 bytes evict each other from the cache, so a full line of each
  // row is used at once.
  const bool crowded = ld * static_cast<i64>(sizeof(T)) % 4096 == 0;
  const i64 turn = crowded ? kLine : kStep, whole = cols < kFewColumns ? 0 : count / turn * turn;
  if (crowded)
    add_turns<T, kLine>(acc, x, w, ld, whole, next);
  else
    add_turns<T, kStep>(acc, x, w, ld, whole, next);
  for (i64 k = whole; k < count; k += kStep)
    for (int g = 0; g < kFewGroups; ++g) {
      WordVec t[kLanes];
      turned(t, w + g * kLanes * ld + k, ld, cols - g * kLanes, count - k);
      add_turned<T>(acc[g], x, t, k, ceil_div(count - k, kPack<T>));
    }
}

// Does the same for a coded matrix, which it decodes in a buffer.
template <class T, int Rows, class Q>
inline void add_decoded(Vec (&acc)[kFewGroups][Rows], const Left& x, const Q& q, i64 ld, i64 col, i64 cols,
                        i64 from, i64 count) {
  constexpr i64 kStep = 8 * kLanes;  // elements decoded at a time: complete vectors and words
  alignas(64) T dense[kFewColumns * kStep];
  for (i64 k = 0; k < count; k += kStep) {
    const i64 n = smaller(kStep, count - k);
    for (i64 c = 0; c < cols; ++c) decode(dense + c * kStep, q, (col + c) * ld + from + k, n);
    add_few<T>(acc, {x.data + k / kPack<T> * x.step, x.row, x.step}, dense, kStep, cols, n, dense);
  }
}
template <class T, int Rows, class Q>
inline void add_coded(Vec (&sums)[kFewGroups][Rows], const Left& x, const Q& q, i64 ld, i64 col, i64 cols,
                      i64 from, i64 count) {
  const auto after = [&](i64 k) { return Left{x.data + k / kPack<T> * x.step, x.row, x.step}; };
  const CodedRun run = cols < kFewColumns ? CodedRun{0, 0} : coded_run(q, ld, from, count);
  const i64 rest = run.lead + run.turns;
  add_decoded<T>(sums, x, q, ld, col, cols, from, run.lead);
  Vec acc[kFewGroups][Rows];
  __builtin_memcpy(&acc, &sums, sizeof acc);
  const Left turns = after(run.lead);
  each_word<T, kFewGroups>(
      q, col, ld, from + run.lead, run.turns, [&](i64 k, int g, WordVec w) __attribute__((always_inline)) {
#pragma GCC unroll 4
        for (int r = 0; r < Rows; ++r)
          acc[g][r] =
              multiply_add<T>(acc[g][r], splat_word(word_at(turns.data + r * turns.row + k * turns.step)), w);
      });
  __builtin_memcpy(&sums, &acc, sizeof acc);
  add_decoded<T>(sums, after(rest), q, ld, col, cols, from + rest, count - rest);
}

// Does the same for rows [col, col + cols) of a part's b.
template <class T, int Rows>
inline void add_part(Vec (&acc)[kFewGroups][Rows], const Part& p, i64 col, i64 cols, bool any_order) {
  const ProductTerm& t = *p.term;
  const i64 from = p.from * kPack<T>, count = elements<T>(p);
  const Left x{p.a, p.row_bytes, p.word_bytes};
  if (is_coded(t))
    return with_codes(t, [&](const auto& q) {
      const CodedRows rows{q, t.ldb, from, count};
      if (any_order && rows.in_runs())
        add_in_rows<T>(acc, x.data, x.row, rows, col, cols);
      else
        add_coded<T>(acc, x, q, t.ldb, col, cols, from, count);
    });
  const T* w = static_cast<const T*>(t.b) + col * t.ldb;
  add_few<T>(acc, x, w + from, t.ldb, cols, count, w + kFewColumns * (t.ldb + from));
}

template <class T, int Rows>
void few_rows(float* sum, i64 ld, const FewRows& f) {
  for (i64 c = 0; c < f.cols; c += kFewColumns) {
    bool add = f.add;
    i64 p = 0;
    do {
      Vec acc[kFewGroups][Rows];
      for (auto& group : acc)
        for (Vec& v : group) v = zero();
      for (bool end = f.count == 0; !end; end = f.parts[p++].ends_depth)
        add_part<T>(acc, f.parts[p], f.col + c, smaller(kFewColumns, f.cols - c), f.any_order);
      for (int g = 0; g < kFewGroups; ++g)
        for (int r = 0; r < Rows; ++r) {
          float* s = sum + r * ld + c + g * kLanes;
          store(s, add ? load(s) + acc[g][r] : acc[g][r]);
        }
      add = true;
    } while (p < f.count);
  }
}

// sum (rows, cols), with rows of ld, a multiple of kFewColumns, = or += the parts' products.
template <class T>
void few_rows(float* sum, i64 ld, const FewRows& f) {
  if (f.rows == 1) return few_rows<T, 1>(sum, ld, f);
  if (f.rows == 2) return few_rows<T, 2>(sum, ld, f);
  if (f.rows == 3) return few_rows<T, 3>(sum, ld, f);
  few_rows<T, 4>(sum, ld, f);
}

}  // namespace
}  // namespace ft::cpu::FT_TARGET
