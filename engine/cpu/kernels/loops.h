// Loops of leaf kernels over elements: the team's threads share spans of rows, and a span is processed in
// vectors of lanes, the last of them partial. An element's result never depends on the thread that computes
// it.
#pragma once
#include "engine/cpu/kernels/leaf.h"
#include "engine/cpu/kernels/vec_math.h"

namespace ft::cpu::FT_TARGET {
namespace {

using i64 = std::int64_t;

inline i64 least(i64 a, i64 b) { return a < b ? a : b; }

// Calls f(item) for all items, which have `elements` elements together. Few elements are processed alone:
// waking a thread costs a few microseconds, as much as some thousand elements.
template <class F>
inline void each_item(i64 items, i64 elements, Team& team, const F& f) {
  share_out(team, items, elements < 16384, [&](i64 i, int) { f(i); });
}

// Loads and stores of a vector: all lanes, or the first n.
struct Whole {
  template <class T>
  Vec load(const T* p) const {
    return FT_TARGET::load(p);
  }
  template <class T>
  void store(T* p, Vec x) const {
    FT_TARGET::store(p, x);
  }
};
struct Part {
  i64 n;
  template <class T>
  Vec load(const T* p) const {
    return FT_TARGET::load(p, n);
  }
  template <class T>
  void store(T* p, Vec x) const {
    FT_TARGET::store(p, x, n);
  }
};

// Calls f(part, i) for i = 0, kLanes, ... up to n.
template <class F>
inline void each_vector(i64 n, F f) {
  i64 i = 0;
  for (; i + kLanes <= n; i += kLanes) f(Whole{}, i);
  if (i < n) f(Part{n - i}, i);
}

// Combines f(part, i) over a row in four chains, which hide the latency of an addition.
template <class F, class Combine>
inline Vec reduce(i64 n, Vec start, F f, Combine combine) {
  Vec a = start, b = start, c = start, d = start;
  i64 i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    a = combine(a, f(Whole{}, i));
    b = combine(b, f(Whole{}, i + kLanes));
    c = combine(c, f(Whole{}, i + 2 * kLanes));
    d = combine(d, f(Whole{}, i + 3 * kLanes));
  }
  for (; i + kLanes <= n; i += kLanes) a = combine(a, f(Whole{}, i));
  if (i < n) b = combine(b, f(Part{n - i}, i));
  return combine(combine(a, b), combine(c, d));
}
template <class F>
inline float sum_over(i64 n, F f) {  // lanes for which f has no elements must be zero
  return sum(reduce(n, zero(), f, [](Vec x, Vec y) { return x + y; }));
}

// The sum of finite numbers over a row as long as a vocabulary, in which thousands of small ones matter next
// to a large one. Runs of 64 vectors are added together with the rounding error of each addition (TwoSum,
// Knuth 1969). As in sum_over, lanes for which f has no elements must be zero.
template <class F>
inline float sum_over_many(i64 n, F f) {
  constexpr i64 kRun = 64 * kLanes;
  Vec total = zero(), rest = zero();
  for (i64 first = 0; first < n; first += kRun) {
    const Vec x = reduce(
        least(kRun, n - first), zero(), [&](auto part, i64 i) { return f(part, first + i); },
        [](Vec a, Vec b) { return a + b; });
    const Vec next = total + x, added = next - total;
    rest = rest + ((total - (next - added)) + (x - added));
    total = next;
  }
  return sum(total + rest);
}

// ---- many rows
inline bool dense(const View& t) { return t.stride == t.cols || t.rows <= 1; }

// Calls f(row, column, count) for pieces of all rows; if all is dense, for pieces of one long row.
template <class F>
inline void each_span(i64 rows, i64 cols, bool all_dense, Team& team, F f) {
  constexpr i64 kSpan = 4096;
  if (all_dense) {
    cols *= rows;
    rows = 1;
  }
  const i64 in_row = (cols + kSpan - 1) / kSpan, spans = rows * in_row;
  each_item(spans, rows * cols, team, [&](i64 s) {
    const i64 row = s / in_row, column = s % in_row * kSpan;
    f(row, column, least(kSpan, cols - column));
  });
}

template <class F>
inline void each_row(i64 rows, i64 cols, Team& team, F f) {
  each_item(rows, rows * cols, team, f);
}

// y[column] += sum over rows of f(part, row, column), in f32: 64 rows at a time, so that the rounding error
// of long sums stays small. One thread computes a block of columns.
template <class F>
inline void add_column_sums(float* y, i64 rows, i64 cols, Team& team, F f) {
  constexpr i64 kBlock = 4 * kLanes, kRows = 64;
  each_item((cols + kBlock - 1) / kBlock, rows * cols, team, [&](i64 block) {
    const i64 first = block * kBlock, n = least(kBlock, cols - first);
    float total[kBlock] = {};
    for (i64 from = 0; from < rows; from += kRows) {
      float part_sum[kBlock] = {};
      for (i64 r = from; r < least(from + kRows, rows); ++r)
        each_vector(
            n, [&](auto part, i64 i) { store(part_sum + i, load(part_sum + i) + f(part, r, first + i)); });
      for (i64 i = 0; i < kBlock; ++i) total[i] += part_sum[i];
    }
    for (i64 i = 0; i < n; ++i) y[first + i] += total[i];
  });
}

// ---- types
template <class T>
inline T* at(const View& t, i64 row) {
  return static_cast<T*>(t.data) + row * t.stride;
}
// Calls f(T{}) with the element type: f32, bf16 or f16.
template <class F>
inline void with_float(DType type, F f) {
  if (type == DType::bf16)
    f(bf16{});
  else if (type == DType::f16)
    f(f16{});
  else
    f(float{});
}

}  // namespace
}  // namespace ft::cpu::FT_TARGET
