// Shared parts of the kernels of attention's gradient: packed tiles of queries and keys, and for a pair of
// tiles the scores s = k q^T and dp = v dy^T, transposed: (key, query).
#pragma once
#include "engine/cpu/kernels/attention_scores.h"

namespace ft::cpu::FT_TARGET {
namespace {

struct QueryTile {
  i64 number, head;          // of its first query; query head
  Word *q, *dy;              // columns
  Word *q_pairs, *dy_pairs;  // for dk and dv
  float *lse, *delta;        // (64) base-2 logarithms; (64)
  float* dq;                 // (width, 64)
};
struct KeyTile {
  i64 number;
  Word *k, *v;     // rows
  Word* k_pairs;   // for dq
  float *dk, *dv;  // (64, width)
};
struct Scores {
  float *s, *dp;   // (key, query)
  float* keep;     // (key, query): dropout's factors
  Word *p, *ds;    // (key, query): left operands that are summed over the queries
  Word* ds_pairs;  // ds as a right operand that is summed over the keys
};

template <class T>
Scores take_scores(Workspace& w) {
  constexpr i64 kWords = kBlock * Sizes<T>::kRowWords;
  constexpr i64 kTileWords = kBlock * kBlock;
  Scores x{w.floats(kTileWords), w.floats(kTileWords), w.floats(kTileWords),
           w.words(kWords),      w.words(kWords),      nullptr};
  x.ds_pairs = kPack<T> == 1 ? x.ds : w.words(kWords);
  return x;
}
template <class T>
QueryTile take_query_tile(Workspace& w, const Sizes<T>& size, bool for_keys) {
  QueryTile t{};
  t.q = w.words(size.words * kBlock);
  t.dy = w.words(size.words * kBlock);
  if (for_keys) t.q_pairs = w.words(size.kRowWords * size.row);
  if (for_keys) t.dy_pairs = w.words(size.kRowWords * size.row);
  t.lse = w.floats(kBlock);
  t.delta = w.floats(kBlock);
  return t;
}
template <class T>
KeyTile take_key_tile(Workspace& w, const Sizes<T>& size) {
  KeyTile t{};
  t.k = w.words(kBlock * size.row);
  t.v = w.words(kBlock * size.row);
  t.k_pairs = kPack<T> == 1 ? t.k : w.words(size.kRowWords * size.row);
  return t;
}

template <class T>
void pack_query_tile(QueryTile& t, const AttentionCall& call, const AttentionPart& part,
                     const Sizes<T>& size) {
  const i64 rows = smaller(kBlock, part.queries - t.number), row = part.query_row + t.number;
  const T* q = head<T>(call.q, row, t.head, size.width);
  const T* dy = head<T>(call.dy, row, t.head, size.width);
  const T* y = head<T>(call.y, row, t.head, size.width);
  pack_columns(t.q, size, q, call.q.stride, rows);
  pack_columns(t.dy, size, dy, call.dy.stride, rows);
  if (t.q_pairs) pack_pairs(t.q_pairs, size, q, call.q.stride, rows);
  if (t.dy_pairs) pack_pairs(t.dy_pairs, size, dy, call.dy.stride, rows);
  clear(t.lse, kBlock);
  clear(t.delta, kBlock);
  const float* lse = call.lse + t.head * call.lse_stride + row;
  for (i64 r = 0; r < rows; ++r) {
    Vec total = zero();
    for (i64 c = 0; c < size.width; c += kLanes) {
      const i64 n = smaller(kLanes, size.width - c);
      total = fma(load(dy + r * call.dy.stride + c, n), load(y + r * call.y.stride + c, n), total);
    }
    t.delta[r] = sum(total);
    t.lse[r] = lse[r] * kLog2E;
  }
}
template <class T>
void pack_key_tile(KeyTile& t, const AttentionCall& call, const AttentionPart& part, const Sizes<T>& size) {
  const i64 rows = smaller(kBlock, part.keys - t.number), row = part.key_row + t.number;
  const T* k = head<T>(call.k, row, part.key_head, size.width);
  pack_rows(t.k, size, k, call.k.stride, rows);
  pack_rows(t.v, size, head<T>(call.v, row, part.key_head, size.width), call.v.stride, rows);
  if (t.k_pairs != t.k) pack_pairs(t.k_pairs, size, k, call.k.stride, rows);
}

// Computes s and dp of all visible pairs of two tiles: s with its bias, hidden if a query does not see the
// key; dp and keep after dropout.
template <class T>
void score_pair(const AttentionCall& call, const AttentionPart& part, const KeyTile& kt, const QueryTile& qt,
                const Visible& seen, const Scores& x, const Sizes<T>& size) {
  for_visible(seen, [&](i64 q, i64 queries, i64 from, i64 to) {
    const i64 at = from * kBlock + q;
    product<T, false>({x.s + at, kBlock}, size.left(kt.k).from(from, 0), size.right(qt.q).from(0, q),
                      to - from, queries, size.words);
    product<T, false>({x.dp + at, kBlock}, size.left(kt.v).from(from, 0), size.right(qt.dy).from(0, q),
                      to - from, queries, size.words);
  });
  TileBias bias;
  if (call.bias.data) load_bias<T>(bias, call, qt.head, qt.number - kt.number);
  for (i64 h = 0, q = 0; h < 2; ++h, q += kHalf) {
    const Half& half = seen.half[h];
    if (half.empty()) continue;
    complete_scores(x.s, half, call, part, bias, q, {qt.head, qt.number, kt.number});
    if (call.dropout == 0) continue;
    fill_keep(x.keep + q, half, call, qt.head, part.query_row + qt.number + q, kt.number);
    for (i64 r = half.begin; r < half.end; ++r)
      for (i64 c = q; c < q + kHalf; c += kLanes) {
        float* dp = x.dp + r * kBlock + c;
        store(dp, load(dp) * load(x.keep + r * kBlock + c));
      }
  }
}

// The probability of scores s, before dropout. It is at most 1, even if scores are so large that rounding
// would make it larger.
inline Vec probability_of(Vec s, Vec scale, Vec lse) { return probability(min(zero(), fms(s, scale, lse))); }

}  // namespace
}  // namespace ft::cpu::FT_TARGET
