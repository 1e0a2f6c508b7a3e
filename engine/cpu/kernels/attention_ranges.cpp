// Attention of single rows over a cache of keys: a query head takes kKeys keys at a time, with a running
// maximum and sum as in attention_forward.cpp. The keys of a block stay in the first-level cache for the
// query heads that share them.
#include "engine/cpu/kernels/attention_scores.h"

namespace ft::cpu::FT_TARGET {
namespace {

constexpr i64 kKeys = 64;  // of a block
constexpr int kWide = 4;   // vectors of sums held in registers

inline i64 padded(i64 width) { return round_up(width, 16); }

// Converts the row's query head to f32, padded with zeros.
template <class T>
void widen_query(float* q, const T* from, i64 width) {
  for (i64 i = 0; i < padded(width); i += kLanes)
    store(q + i, i + kLanes <= width ? load(from + i) : load(from + i, i < width ? width - i : 0));
}

template <class T>
inline float dot(const float* q, const T* k, i64 width) {
  Vec a = zero(), b = zero();
  i64 i = 0;
  for (; i + 2 * kLanes <= width; i += 2 * kLanes) {
    a = fma(load(q + i), load(k + i), a);
    b = fma(load(q + i + kLanes), load(k + i + kLanes), b);
  }
  for (; i + kLanes <= width; i += kLanes) a = fma(load(q + i), load(k + i), a);
  if (i < width) b = fma(load(q + i), load(k + i, width - i), b);
  return sum(a + b);
}

// sums = shrink * sums + p v over `keys` rows of v.
template <int Vectors, class T>
inline void add_values(float* sums, float shrink, const float* p, const T* v, i64 stride, i64 keys,
                       i64 left) {
  Vec a[Vectors];
  for (int j = 0; j < Vectors; ++j) a[j] = load(sums + j * kLanes) * splat(shrink);
  for (i64 k = 0; k < keys; ++k) {
    const Vec weight = splat(p[k]);
    for (int j = 0; j < Vectors; ++j) {
      const T* at = v + k * stride + j * kLanes;
      const i64 n = left - j * kLanes;
      a[j] = fma(weight, n >= kLanes ? load(at) : load(at, n), a[j]);
    }
  }
  for (int j = 0; j < Vectors; ++j) store(sums + j * kLanes, a[j]);
}

// The softmax state of a query head.
struct Seen {
  float top = -__builtin_inff(), total = 0;  // maximum of the scaled scores; sum of probabilities
};

// Turns s into probabilities relative to the new maximum; returns the factor for older sums.
inline float soften(float* s, i64 keys, Seen& seen) {
  float top = seen.top;
  for (i64 k = 0; k < keys; ++k) top = s[k] > top ? s[k] : top;
  const float shrink = seen.total > 0 ? sum(exp2(splat(seen.top - top))) / kLanes : 0;
  Vec total = zero();
  for (i64 k = 0; k < keys; k += kLanes) {
    const Vec p = exp2(load(s + k, smaller(kLanes, keys - k)) - splat(top));
    store(s + k, p, smaller(kLanes, keys - k));
    total = total + load(s + k, smaller(kLanes, keys - k));
  }
  seen.top = top;
  seen.total = seen.total * shrink + sum(total);
  return shrink;
}

// Applies the cap to scores; both are in powers of 2.
inline void cap_scores(float* s, i64 keys, float cap) {
  for (i64 k = 0; k < keys; k += kLanes) {
    const i64 n = smaller(kLanes, keys - k);
    store(s + k, splat(cap) * math::tanh_of(load(s + k, n) * splat(1 / cap)), n);
  }
}

// The bias of a key; the last key is the query's own.
template <class T>
inline float bias_of(const AttentionRange& c, i64 head, i64 key) {
  const i64 row = larger(0, c.reach - (c.keys - 1 - key));
  return widened(reinterpret_cast<const T*>(c.bias.data)[row * c.bias.stride + head]);
}

// Prefetches the keys of the next block, or the first keys of the next head.
template <class T>
[[gnu::always_inline]] inline void fetch_keys(const AttentionRange& c, i64 from) {
  const i64 end = c.first_key + c.keys;
  if (from < c.keys) return fetch_rows<T>(c.k, c.first_key + from, end, c.key_head, c.width);
  if (c.key_head + 1 < c.key_heads) fetch_rows<T>(c.k, c.first_key, end, c.key_head + 1, c.width);
}

template <class T>
void one_head(const AttentionRange& c, i64 head, float* workspace) {
  const i64 D = c.width;
  float *q = workspace, *sums = workspace + padded(D);
  alignas(64) float s[kKeys];
  widen_query(q, reinterpret_cast<const T*>(c.q.data) + c.row * c.q.stride + head * D, D);
  for (i64 i = 0; i < padded(D); i += kLanes) store(sums + i, zero());
  const i64 column = c.key_head * D;
  const T* keys = reinterpret_cast<const T*>(c.k.data) + c.first_key * c.k.stride + column;
  const T* values = reinterpret_cast<const T*>(c.v.data) + c.first_key * c.v.stride + column;
  const float scale = c.scale * 1.44269504f;  // for powers of 2
  Seen seen;
  for (i64 at = 0, n; at < c.keys; at += n) {
    n = smaller(kKeys, c.keys - at);
    if (c.blocks.bits) {
      const i64 block = (c.number + at) >> c.blocks.shift;
      n = smaller(n, ((block + 1) << c.blocks.shift) - (c.number + at));
      if ((c.blocks.bits[head * c.blocks.head_words + block / 32] >> (block % 32) & 1) == 0) continue;
    }
    fetch_rows<T>(c.v, c.first_key + at, c.first_key + at + n, c.key_head, D);
    for (i64 k = 0; k < n; ++k) s[k] = scale * dot(q, keys + (at + k) * c.k.stride, D);
    fetch_keys<T>(c, at + n);
    if (c.cap > 0) cap_scores(s, n, c.cap * kLog2E);
    if (c.bias.data)
      for (i64 k = 0; k < n; ++k) s[k] += kLog2E * bias_of<T>(c, head, at + k);
    const float shrink = soften(s, n, seen);
    const T* v = values + at * c.v.stride;
    i64 d = 0;
    for (; d + kWide * kLanes <= D; d += kWide * kLanes)
      add_values<kWide>(sums + d, shrink, s, v + d, c.v.stride, n, D - d);
    for (; d < D; d += kLanes) add_values<1>(sums + d, shrink, s, v + d, c.v.stride, n, D - d);
  }
  T* y = reinterpret_cast<T*>(c.y.data) + c.row * c.y.stride + head * D;
  if (c.lse) c.lse[head * c.lse_stride + c.row] = (seen.top + __builtin_log2f(seen.total)) / kLog2E;
  const Vec inverse = splat(1 / seen.total);
  for (i64 i = 0; i < D; i += kLanes) store(y + i, load(sums + i) * inverse, smaller(kLanes, D - i));
}

template <class T>
void range(const AttentionRange& c, float* workspace) {
  const i64 group = c.heads / c.key_heads;
  for (i64 h = c.key_head * group; h < (c.key_head + 1) * group; ++h) one_head<T>(c, h, workspace);
}

}  // namespace

extern const AttentionRanges attention_ranges;
const AttentionRanges attention_ranges{range<float>, range<bf16>, range<f16>};

}  // namespace ft::cpu::FT_TARGET
