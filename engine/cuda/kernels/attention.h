// Attention by tiles with running maxima and sums (Milakov and Gimelshein 2018; Dao et al. 2022), never a (T,
// T) matrix. The gradient takes two passes, one for dq and one for dk and dv, so that every element is summed
// by one thread in one order.
#pragma once
#include "engine/cuda/kernels/kernels.h"

namespace ft::cuda {

constexpr std::int64_t kAttentionWidth = 256;  // the widest head

// bf16 in heads of up to 128 columns goes to tensor cores, all else to plain kernels.
constexpr bool attention_uses_mma(DType type, std::int64_t width) {
  return type == DType::bf16 && width <= 128;
}
// Rows of a tile.
constexpr std::int64_t attention_tile(DType type, std::int64_t width) {
  return attention_uses_mma(type, width) ? 64 : 16;
}

// Rows [first, first + attention_tile(...)) of the sequence [begin, end), as far as it goes.
struct Tile {
  std::int32_t begin, end, first;
};

struct Attention {
  View q, k, v, y;                // (rows, H D), (rows, KV D)
  float* lse;                     // (H, rows) natural logarithms
  View dy, dq, dk, dv;            // the gradient only
  float* delta;                   // the gradient only: (heads of a call, rows), sums of dy y
  const Tile* tiles;              // on the device: all tiles of all sequences
  std::int64_t n_tiles;           // of them
  int group, width;               // query heads that share a key head; D
  int first_key_head, key_heads;  // the heads of this call
  bool causal;
  std::int64_t window;  // 0: none
  float scale;
};

// Few queries and the keys of a cache: see Ops::attention_ranges.
struct KeyRangesCall {
  View y, q, k, v;
  const std::int32_t *first, *count;  // (rows)
  int heads, group, width;
  std::int64_t window;  // 0: none
  float scale;
};

void attention(cudaStream_t, const Attention&);
void attention_grad(cudaStream_t, const Attention&);  // delta, dq, dk, dv of the call's heads
// The tensor-core part of the two above: y and lse; dq, dk and dv.
void attention_mma(cudaStream_t, const Attention&);
void attention_mma_grad(cudaStream_t, const Attention&);
void attention_ranges(cudaStream_t, const KeyRangesCall&, std::int32_t* wrong);

}  // namespace ft::cuda
