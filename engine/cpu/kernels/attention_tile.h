// Shared parts of attention's forward and backward: products of small matrices of words, the visible part of
// a tile, and packing. Scores are stored transposed, (key, query): maxima, sums and scales per query are then
// plain vector operations along the lanes, and the probabilities already have the order that the next product
// needs.
#pragma once
#include "engine/cpu/kernels/attention.h"
#include "engine/cpu/kernels/tile.h"

namespace ft::cpu::FT_TARGET {
namespace {

constexpr i64 kBlock = kAttentionTile;  // queries or keys of a tile
constexpr i64 kHalf = 32;  // queries with a common range of visible keys: a step of the diagonal's staircase
constexpr float kLog2E = 1.44269504f;
// A hidden score. Maxima start at kFloor, far above it, so that 2^(hidden - maximum) is 0 even if a query has
// not seen any key yet. Real scores never reach the magnitude of kFloor.
constexpr float kHidden = -1e30f, kFloor = -1e28f;

// ---- c (rows, cols) = or += a (rows, words) b (words, cols); cols a multiple of kLanes

// Word (i, k) of a left operand is at data + i * row + k * step.
struct Left {
  const Word* data;
  i64 row, step;
  Left from(i64 i, i64 k) const { return {data + i * row + k * step, row, step}; }
};
// Word (k, j) of a right operand is at data + k * row + j.
struct Right {
  const Word* data;
  i64 row;
  Right from(i64 k, i64 j) const { return {data + k * row + j, row}; }
};
struct Sums {
  float* data;
  i64 row;
  Sums from(i64 i, i64 j) const { return {data + i * row + j, row}; }
};

template <class T, bool Add, int R, int V>
[[gnu::always_inline]] inline void product_tile(Sums c, Left a, Right b, i64 words) {
  Vec acc[R][V];
#pragma GCC unroll 12
  for (int i = 0; i < R; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < V; ++j) acc[i][j] = Add ? load(c.data + i * c.row + j * kLanes) : zero();
  accumulate<T>(acc, reinterpret_cast<const std::byte*>(a.data), a.row * 4, a.step * 4, b.data, b.row, words);
#pragma GCC unroll 12
  for (int i = 0; i < R; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < V; ++j) store(c.data + i * c.row + j * kLanes, acc[i][j]);
}

template <class T, bool Add, int V>
void product_columns(Sums c, Left a, Right b, i64 rows, i64 words) {
  constexpr int R = tile_rows(V);
  i64 i = 0;
  for (; i + R <= rows; i += R) product_tile<T, Add, R, V>(c.from(i, 0), a.from(i, 0), b, words);
  for (; i + 4 <= rows; i += 4) product_tile<T, Add, 4, V>(c.from(i, 0), a.from(i, 0), b, words);
  for (; i + 2 <= rows; i += 2) product_tile<T, Add, 2, V>(c.from(i, 0), a.from(i, 0), b, words);
  if (i < rows) product_tile<T, Add, 1, V>(c.from(i, 0), a.from(i, 0), b, words);
}

template <class T, bool Add>
inline void product(Sums c, Left a, Right b, i64 rows, i64 cols, i64 words) {
  using W = WordType<T>;
  i64 j = 0;
  for (; j + kTile <= cols; j += kTile)
    product_columns<W, Add, kTileVectors>(c.from(0, j), a, b.from(0, j), rows, words);
  for (; j + 2 * kLanes <= cols; j += 2 * kLanes)
    product_columns<W, Add, 2>(c.from(0, j), a, b.from(0, j), rows, words);
  if (j < cols) product_columns<W, Add, 1>(c.from(0, j), a, b.from(0, j), rows, words);
}

// ---- masks

// The keys [begin, end) of a key tile that some query of half a query tile sees, in complete pairs; empty if
// there is none.
struct Half {
  i64 begin = 0, end = 0;
  bool hidden = false;  // some keys are hidden from some queries
  bool empty() const { return begin >= end; }
};
struct Visible {
  Half half[2];
  bool empty() const { return half[0].empty() && half[1].empty(); }
  bool alike() const { return half[0].begin == half[1].begin && half[0].end == half[1].end; }
};

// Bits of the blocks in a tile of keys that a block row of queries sees: bit i is the tile's i-th block.
inline std::uint32_t block_bits(const AttentionBlocks& b, i64 head, i64 row, i64 column) {
  const i64 of_tile = kBlock >> b.shift;  // 0: the tile is a part of a block
  const std::uint32_t* at = b.bits + head * b.head_words + smaller(row, b.rows - 1) * b.words + column / 32;
  return *at >> (column % 32) & ((2u << larger(0, of_tile - 1)) - 1);
}

// Narrows a half to the blocks that some of its queries see; `last` is its last query.
inline void narrow(Half& h, const AttentionBlocks& b, i64 head, i64 query, i64 last, i64 key) {
  std::uint32_t any = 0, all = ~0u;
  for (i64 row = query >> b.shift; row <= last >> b.shift; ++row) {
    const std::uint32_t bits = block_bits(b, head, row, key >> b.shift);
    any |= bits;
    all &= bits;
  }
  if (any == 0) {
    h.end = h.begin;
    return;
  }
  const i64 begin = __builtin_ctz(any), end = 32 - __builtin_clz(any);
  h.begin = larger(h.begin, begin << b.shift);
  h.end = smaller(h.end, end << b.shift);
  h.hidden = h.hidden || all >> begin != (2u << (end - begin - 1)) - 1;
}

inline Half visible_half(const AttentionCall& call, const AttentionPart& part, i64 head, i64 query, i64 key) {
  Half h;
  if (query >= part.queries) return h;
  const i64 last = smaller(query + kHalf, part.queries) - 1;
  const i64 from = call.window > 0 ? larger(0, query - call.window + 1) : 0;
  const i64 to = call.causal ? smaller(part.keys, last + 1) : part.keys;
  h.begin = larger(0, from - key) / 2 * 2;
  h.end = round_up(smaller(kBlock, larger(0, to - key)), 2);
  h.hidden = (call.causal && key + h.end - 1 > query) || key + h.end > part.keys ||
             (call.window > 0 && key + h.begin <= last - call.window);
  if (call.blocks.bits && !h.empty()) narrow(h, call.blocks, head, query, last, key);
  return h;
}
// The keys from number `key` that a query head's queries from number `query` see.
inline Visible visible(const AttentionCall& call, const AttentionPart& part, i64 head, i64 query, i64 key) {
  return {{visible_half(call, part, head, query, key), visible_half(call, part, head, query + kHalf, key)}};
}

// Calls f(first query, queries, first key, last key + 1) for the complete tile, or for each half if they
// differ.
template <class F>
inline void for_visible(const Visible& v, F f) {
  if (v.alike()) return f(0, kBlock, v.half[0].begin, v.half[0].end);
  for (int h = 0; h < 2; ++h)
    if (!v.half[h].empty()) f(h * kHalf, kHalf, v.half[h].begin, v.half[h].end);
}

// Hides scores (key, query) of one half; s points to its first column, whose query has number `query`.
inline void hide(float* s, const Half& h, const AttentionCall& call, const AttentionPart& part, i64 query,
                 i64 key) {
  for (i64 r = h.begin; r < h.end; ++r) {
    // the queries [from, to) of this half see this key
    const i64 from = call.causal ? key + r - query : 0;
    const i64 to = key + r >= part.keys ? 0 : call.window > 0 ? key + r - query + call.window : kHalf;
    for (i64 c = 0; c < kHalf; c += kLanes) {
      float* p = s + r * kBlock + c;
      const Vec seen = select(first_lanes(to - c), load(p), splat(kHidden));
      store(p, select(first_lanes(from - c), splat(kHidden), seen));
    }
  }
}
// Hides scores of pairs in blocks that are not kept.
inline void hide_blocks(float* s, const Half& h, const AttentionBlocks& b, i64 head, i64 query, i64 key) {
  for (i64 c = 0; c < kHalf; c += kLanes) {
    const std::uint32_t kept = block_bits(b, head, (query + c) >> b.shift, key >> b.shift);
    for (i64 r = h.begin; r < h.end; ++r)
      if ((kept >> (r >> b.shift) & 1) == 0) store(s + r * kBlock + c, splat(kHidden));
  }
}

// 2^x for x <= 0; 0 below 2^-64. Such values are too small to matter in a sum with the maximum's 1, and
// products with them would be denormal, which is very slow.
constexpr float kExp2[] = {1.3333558e-3f, 9.6181291e-3f, 5.5504109e-2f, 2.4022651e-1f, 6.9314718e-1f, 1.0f};
inline Vec probability(Vec x) {
  const Vec n = round(x), f = x - n;
  Vec p = splat(1.5403530e-4f);
  for (const float c : kExp2) p = fma(p, f, splat(c));
  return scale2(not_less(x, splat(-64.0f)), p, n);  // keeps NaN
}

// ---- packing: up to 64 rows of a head, `width` columns

template <class T>
inline const T* head(const Rows& x, i64 row, i64 head, i64 width) {
  return reinterpret_cast<const T*>(x.data) + row * x.stride + head * width;
}
template <class T>
inline T* head_out(const Rows& x, i64 row, i64 head, i64 width) {
  return reinterpret_cast<T*>(x.data) + row * x.stride + head * width;
}

// Prefetches a tile's rows, up to row `end`, into the second-level cache while another tile is processed: a
// head's rows are too short and too far apart for the hardware prefetcher. It is inlined, because gcc removes
// calls of a function that does nothing else.
template <class T>
[[gnu::always_inline]] inline void fetch_rows(const Rows& x, i64 row, i64 end, i64 head_number, i64 width) {
  constexpr i64 kLine = 64 / sizeof(T);
  for (i64 r = row; r < smaller(row + kBlock, end); ++r)
    for (i64 c = 0; c < width; c += kLine) __builtin_prefetch(head<T>(x, r, head_number, width) + c, 0, 2);
}

// Sizes of packed tiles, and the way in which products read them. In `rows` and `columns` a word holds
// neighbouring columns of the head, in `pairs` neighbouring rows; with f32 `rows` and `pairs` are the same.
template <class T>
struct Sizes {
  explicit Sizes(i64 head_width)
      : width(head_width), words(ceil_div(width, kPack<T>)), row(round_up(width, kLanes)) {}
  i64 width;
  i64 words;  // for sums over the width
  i64 row;    // distance between packed rows

  static constexpr i64 kRowWords = kBlock / kPack<T>;  // for sums over the rows

  // Operands for sums over the width.
  Left left(const Word* x) const { return {x, row, 1}; }
  static Right right(const Word* x) { return {x, kBlock}; }  // packed by pack_columns
  // Operands for sums over the rows; x is packed in pairs.
  Left left_pairs(const Word* x) const { return {x, 1, row}; }
  Right right_pairs(const Word* x) const { return {x, row}; }
};

// (rows, width) -> (64, words), left operand. If the number of rows is odd, a row of zeros completes the last
// pair.
template <class T>
inline void pack_rows(Word* y, const Sizes<T>& s, const T* x, i64 ldx, i64 rows) {
  widen(y, s.row, x, ldx, rows, s.width);
  if (rows % 2) __builtin_memset(y + rows * s.row, 0, static_cast<std::size_t>(s.row) * 4);
}
// (rows, width) -> (words, 64), right operand, with zeros after `rows`.
template <class T>
inline void pack_columns(Word* y, const Sizes<T>& s, const T* x, i64 ldx, i64 rows) {
  if (rows < kBlock) __builtin_memset(y, 0, static_cast<std::size_t>(s.words * kBlock) * 4);
  transpose(y, kBlock, x, ldx, rows, s.width);
}
// (rows, width) -> (64 / kPack, width), left or right operand for sums over the rows, with zeros after
// `rows`.
template <class T>
inline void pack_pairs(Word* y, const Sizes<T>& s, const T* x, i64 ldx, i64 rows) {
  if (rows < kBlock) __builtin_memset(y, 0, static_cast<std::size_t>(s.kRowWords * s.row) * 4);
  interleave(y, s.row, x, ldx, rows, s.width);
}
// Unpacks results: x (width, 64) f32, times alpha -> y (rows, width).
template <class T>
inline void unpack_columns(T* y, i64 ldy, const float* x, i64 rows, float alpha, const Sizes<T>& s,
                           Word* scratch) {
  transpose(scratch, s.row, x, kBlock, s.width, rows);
  const auto* f = reinterpret_cast<const float*>(scratch);
  for (i64 r = 0; r < rows; ++r)
    for (i64 c = 0; c < s.width; c += kLanes)
      store(y + r * ldy + c, splat(alpha) * load(f + r * s.row + c), smaller(kLanes, s.width - c));
}

// Hands out pieces of the workspace.
struct Workspace {
  Word* at;
  Word* words(i64 n) {
    Word* p = at;
    at += round_up(n, 16);
    return p;
  }
  float* floats(i64 n) { return reinterpret_cast<float*>(words(n)); }
};
inline void clear(float* p, i64 n) { __builtin_memset(p, 0, static_cast<std::size_t>(n) * 4); }

}  // namespace
}  // namespace ft::cpu::FT_TARGET
