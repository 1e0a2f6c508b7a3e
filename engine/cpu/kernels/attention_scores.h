// Cap, bias by distance and dropout for a tile of scores, (key, query): see ft::Scores.
#pragma once
#include "engine/cpu/kernels/attention_tile.h"
#include "engine/cpu/kernels/philox.h"
#include "engine/cpu/kernels/vec_math.h"

namespace ft::cpu::FT_TARGET {
namespace {

inline float widened(float x) { return x; }
inline float widened(bf16 x) { return __builtin_bit_cast(float, static_cast<std::uint32_t>(x.bits) << 16); }
inline float widened(f16 x) { return to_float(x); }

// Row of the bias for a pair at distance key - query.
inline i64 bias_row(const AttentionCall& call, i64 distance) {
  return call.reach + larger(-call.reach, smaller(call.reach, distance));
}

// The bias of a tile's pairs, divided by the scale: at[63 + column - row] for column `query`, row `key`.
struct TileBias {
  float at[2 * kBlock];
};
// ahead: the first query's number minus the first key's.
template <class T>
inline void load_bias(TileBias& b, const AttentionCall& call, i64 head, i64 ahead) {
  const T* column = reinterpret_cast<const T*>(call.bias.data) + head;
  for (i64 i = 0; i < 2 * kBlock; ++i)
    b.at[i] = widened(column[bias_row(call, kBlock - 1 - i - ahead) * call.bias.stride]) / call.scale;
}

// Adds the bias to one half, whose first column in the tile is `first`; s points to that column.
inline void add_bias(float* s, const Half& h, const TileBias& b, i64 first) {
  for (i64 r = h.begin; r < h.end; ++r)
    for (i64 c = 0; c < kHalf; c += kLanes) {
      float* p = s + r * kBlock + c;
      store(p, load(p) + load(b.at + kBlock - 1 + first + c - r));
    }
}

// Caps scores before they are scaled: (cap / scale) tanh(s scale / cap).
inline void cap_scores(float* s, const Half& h, float scale, float cap) {
  const Vec inverse = splat(scale / cap), largest = splat(cap / scale);
  for (i64 r = h.begin; r < h.end; ++r)
    for (i64 c = 0; c < kHalf; c += kLanes) {
      float* p = s + r * kBlock + c;
      store(p, largest * math::tanh_of(load(p) * inverse));
    }
}

// Dropout's factors for the probabilities of one half: 0, or the scale of a kept one. keep: first column of
// the half; `query`: row of that column in the batch; `key`: first key of the tile.
inline void fill_keep(float* keep, const Half& h, const AttentionCall& call, i64 head, i64 query, i64 key) {
  const DropRule rule(call.dropout);
  const float scale = rule.growth(), limit = below_kept(rule);
  for (i64 c = 0; c < kHalf; c += kCounters) {
    std::uint32_t low[kCounters], high[kCounters];
    for (int j = 0; j < kCounters; ++j)
      high[j] = static_cast<std::uint32_t>((query + c + j) * call.all_heads + call.first_head + head);
    for (i64 r = h.begin / 8 * 8; r < h.end; r += 8) {
      for (std::uint32_t& n : low) n = static_cast<std::uint32_t>((key + r) / 8);
      Eights eight;
      eights(eight, low, high, call.random);
      for (int n = 0; n < 8; ++n)
        for (int j = 0; j < kCounters; ++j)
          keep[(r + n) * kBlock + c + j] = limit < eight.of[n][j] ? scale : 0;
    }
  }
}

// The query head, and the first query and key of a pair of tiles.
struct TilePair {
  i64 head, query, key;
};

// Applies cap, bias and masks to one half; `first` is its first column in the tile.
inline void complete_scores(float* s, const Half& half, const AttentionCall& call, const AttentionPart& part,
                            const TileBias& bias, i64 first, const TilePair& at) {
  if (call.cap > 0) cap_scores(s + first, half, call.scale, call.cap);
  if (call.bias.data) add_bias(s + first, half, bias, first);
  if (!half.hidden) return;
  hide(s + first, half, call, part, at.query + first, at.key);
  if (call.blocks.bits) hide_blocks(s + first, half, call.blocks, at.head, at.query + first, at.key);
}

}  // namespace
}  // namespace ft::cpu::FT_TARGET
