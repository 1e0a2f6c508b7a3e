// Attention by tiles with running maxima and sums (Milakov and Gimelshein 2018; Dao et al. 2022), never a (T,
// T) matrix. The gradient takes two passes, one for dq and one for dk and dv, so that every element is summed
// by one thread in one order.
#pragma once
#include <cuda_runtime.h>

#include <bit>

#include "engine/ops/view.h"

namespace ft::cuda {

constexpr std::int64_t kAttentionWidth = 256;  // the widest head

// Rows [first, first + attention_tile(...)) of the sequence [begin, end), as far as it goes; [from, to) are
// the keys of these queries or the queries of these keys, which in self-attention is [begin, end) again.
struct Tile {
  std::int32_t begin, end, first, from, to;
};

// The bits of ft::BlockMask, with blocks of 1 << shift tokens; no bits: all blocks are kept.
struct Blocks {
  const std::uint32_t* bits;
  std::int64_t head_words, words;  // from one head to the next (0: all have the same); of a row
  std::int64_t rows;               // of a head
  int shift;
};
// bits (heads * rows, words)
inline Blocks blocks_of(const View& bits, std::int64_t rows, std::int64_t block) {
  if (!bits.data) return {};
  return {static_cast<const std::uint32_t*>(bits.data), bits.rows > rows ? rows * bits.cols : 0, bits.cols,
          rows, std::countr_zero(static_cast<std::uint64_t>(block))};
}

struct Attention {
  View q, k, v, y;      // (rows, H D), (rows, KV D)
  float* lse;           // (H, rows) natural logarithms
  View dy, dq, dk, dv;  // the gradient only
  float* delta;         // the gradient only: (heads of a call, rows), sums of dy y
  float* spare;         // the gradient only: what it may use beside
  std::int64_t spare_floats;
  const Tile *tiles, *key_tiles;  // on the device: all tiles of all sequences, of queries and of keys
  std::int64_t n_tiles, n_key_tiles;
  int group, width;               // query heads that share a key head; D
  int first_key_head, key_heads;  // the heads of this call
  bool causal;
  std::int64_t window;  // 0: none
  float scale;
  float cap;         // of scaled scores; 0: none
  View bias, dbias;  // see ft::Scores; no data: none, not wanted
  float dropout;
  std::uint64_t random;  // the key of its Random
  std::int64_t first_head, all_heads;
  Blocks blocks;
  std::int64_t cache;  // bytes that the GPU keeps at hand; only speed depends on it
  bool hopper;         // the GPU has the products of warpgroups (wgmma.cuh)
};

// bf16 and f16 use tensor cores: heads of up to 128 columns, with a bias of as many distances as fit into
// shared memory next to tiles of 128 columns, or a cap without dropout and blocks; heads of up to 256 with at
// most a cap. Everything else uses plain kernels.
constexpr std::int64_t kMmaDistances = 384;
constexpr bool attention_is_wide(int width) { return width > 128; }
inline bool attention_uses_mma(const Attention& c) {
  const bool bare = c.dropout == 0 && !c.blocks.bits;
  return c.q.type != DType::f32 && c.width <= 256 && c.bias.rows <= kMmaDistances && (c.cap == 0 || bare) &&
         (!attention_is_wide(c.width) || (bare && !c.bias.data));
}
constexpr int kMmaRows = 128, kWideMmaRows = 64, kPlainRows = 16;  // of a tile
constexpr int attention_mma_rows(int width) { return attention_is_wide(width) ? kWideMmaRows : kMmaRows; }
inline int attention_tile(const Attention& c) {
  return attention_uses_mma(c) ? attention_mma_rows(c.width) : kPlainRows;
}

void attention(cudaStream_t, const Attention&);
void attention_grad(cudaStream_t, const Attention&);  // delta, dq, dk, dv, dbias of the call's heads
// The tensor-core part of the two above: y and lse; dq, dk and dv; dbias.
void attention_mma(cudaStream_t, const Attention&);
void attention_mma_grad(cudaStream_t, const Attention&);
void attention_mma_bias_grad(cudaStream_t, const Attention&);
// The first two by products of warpgroups, for c.hopper: heads of up to 128 columns without a bias, dropout,
// blocks or a cap, or of up to 64 with dropout, or with a bias where no heads share keys; all rows at
// multiples of 16 bytes.
bool attention_uses_wgmma(const Attention&);
void attention_wgmma(cudaStream_t, const Attention&);
void attention_wgmma_grad(cudaStream_t, const Attention&);

}  // namespace ft::cuda
