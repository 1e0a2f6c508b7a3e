// Attention by tiles with running maxima and sums (Milakov and Gimelshein 2018; Dao et al. 2022); there is
// never a (T, T) matrix. The gradient takes two passes, one for dq and one for dk and dv, so that one thread
// sums every element in one order.
#pragma once
#include <cuda_runtime.h>

#include <bit>

#include "engine/ops/view.h"

namespace ft::cuda {

constexpr std::int64_t kAttentionWidth = 512;  // the widest head

// Rows [first, first + attention_tile(...)) of the sequence [begin, end), cut at its end. [from, to) are the
// keys of these queries, or the queries of these keys; in self-attention this is [begin, end) again.
struct Tile {
  std::int32_t begin, end, first, from, to;
};

// The bits of ft::BlockMask, with blocks of 1 << shift tokens; without bits all blocks are kept.
struct Blocks {
  const std::uint32_t* bits;
  // distance between heads (0: all heads have one layout); words of a row
  std::int64_t head_words, words;
  std::int64_t rows;  // of a head
  int shift;
};
// bits (heads * rows, words).
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
  float* spare;         // the gradient only: further workspace
  std::int64_t spare_floats;
  const Tile *tiles, *key_tiles;  // on the device: tiles of all sequences' queries and keys
  std::int64_t n_tiles, n_key_tiles;
  int group, width;               // number of query heads that share a key head; D
  int first_key_head, key_heads;  // the heads of this call
  bool causal;
  std::int64_t window;  // 0: none
  float scale;
  float cap;         // of scaled scores; 0: none
  View bias, dbias;  // see ft::Scores; without data there is no bias, or dbias is not wanted
  float dropout;
  std::uint64_t random;  // key of its Random
  std::int64_t first_head, all_heads;
  Blocks blocks;
  std::int64_t cache;  // bytes of the GPU's cache; affects only speed
  bool hopper;         // the GPU has products of warpgroups (wgmma.cuh)
};

// Tensor cores compute attention in bf16 and f16. Heads of up to 128 columns may have a bias, if its
// distances fit into shared memory next to tiles of 128 columns, or a cap without dropout and blocks. Heads
// of up to 256 columns may have a cap only. Plain kernels compute everything else.
constexpr std::int64_t kMmaDistances = 384;
constexpr bool attention_is_wide(int width) { return width > 128; }
inline bool attention_uses_mma(const Attention& c) {
  const bool bare = c.dropout == 0 && !c.blocks.bits;
  return c.q.type != DType::f32 && c.width <= 256 && c.bias.rows <= kMmaDistances && (c.cap == 0 || bare) &&
         (!attention_is_wide(c.width) || (bare && !c.bias.data));
}
constexpr int kMmaRows = 128, kWideMmaRows = 64, kPlainRows = 16;  // rows of a tile
constexpr int attention_mma_rows(int width) { return attention_is_wide(width) ? kWideMmaRows : kMmaRows; }
inline int attention_tile(const Attention& c) {
  return attention_uses_mma(c) ? attention_mma_rows(c.width) : kPlainRows;
}

void attention(cudaStream_t, const Attention&);
// computes delta, dq, dk, dv and dbias of the call's heads
void attention_grad(cudaStream_t, const Attention&);
// The tensor-core parts of these two: y and lse; dq, dk and dv; dbias.
void attention_mma(cudaStream_t, const Attention&);
void attention_mma_grad(cudaStream_t, const Attention&);
void attention_mma_bias_grad(cudaStream_t, const Attention&);
// The first two with products of warpgroups, if c.hopper: for heads of up to 128 columns without bias,
// dropout, blocks and cap; for heads of up to 64 columns also with dropout, or with a bias if no heads share
// keys. All rows must begin at multiples of 16 bytes.
bool attention_uses_wgmma(const Attention&);
void attention_wgmma(cudaStream_t, const Attention&);
void attention_wgmma_grad(cudaStream_t, const Attention&);

}  // namespace ft::cuda
