// Attention by tiles with running maxima and sums (Milakov and Gimelshein 2018; Dao et al. 2022), never a (T,
// T) matrix. The gradient takes two passes, one for dq and one for dk and dv, so that every element is summed
// by one thread in one order.
#pragma once
#include "engine/cuda/kernels/kernels.h"

namespace ft::cuda {

constexpr std::int64_t kAttentionTile = 16;    // rows of a tile
constexpr std::int64_t kAttentionWidth = 256;  // the widest head

// Rows [first, first + kAttentionTile) of the sequence [begin, end), as far as it goes.
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

void attention(cudaStream_t, const Attention&);
void attention_grad(cudaStream_t, const Attention&);  // delta, dq, dk, dv of the call's heads

}  // namespace ft::cuda
