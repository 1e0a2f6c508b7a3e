// Sparse attention in the tensor-core kernels: the steps of columns that a tile of rows needs, and the scores
// that are hidden. Rows and columns are numbered within the batch.
#pragma once
#include "engine/cuda/kernels/attention_mma.cuh"

namespace ft::cuda {

// Dense attention: all blocks are kept, so nothing is tested.
struct AllBlocks {
  __device__ AllBlocks(const Attention&, const Tile&) {}
  __device__ int aligned(int from) const { return from; }
  template <int kStep>
  __device__ int step_of_queries(i64, int, int, int from, int) const {
    return from;
  }
  template <int kStep>
  __device__ int step_of_keys(i64, int, int from, int) const {
    return from;
  }
  __device__ bool any(i64, int, int, int, int) const { return true; }
  template <int kM, int kN>
  __device__ void hide_of_queries(float (&)[kM][kN][4], i64, int, int) const {}
  template <int kN>
  __device__ void hide_of_keys(float (&)[1][kN][4], i64, int, int) const {}
};

// The blocks that are kept in a tile of self-attention.
class KeptBlocks {
 public:
  __device__ KeptBlocks(const Attention& c, const Tile& tile) : blocks_(c.blocks), begin_(tile.begin) {}

  // Makes steps of columns begin with a block.
  __device__ int aligned(int from) const { return from - (from - begin_) % kMmaRows; }

  // The first step of columns from `from` on that has work: keys for queries [first, last), or queries for
  // the tile of keys from `first` on.
  template <int kStep>
  __device__ int step_of_queries(i64 head, int first, int last, int from, int end) const {
    while (from < end && !any(head, first, last, from, kStep)) from += kStep;
    return from;
  }
  template <int kStep>
  __device__ int step_of_keys(i64 head, int first, int from, int end) const {
    while (from < end && !any(head, from, lesser(from + kStep, end), first, kMmaRows)) from += kStep;
    return from;
  }
  // True if any of the queries [query, last) sees any of n keys; n is a power of 2, and `key` a multiple of
  // it.
  __device__ bool any(i64 head, int query, int last, int key, int n) const {
    std::uint32_t seen = 0;
    for (int row = block(query); query < last && row <= block(last - 1); ++row)
      seen |= bits(head, row, key, n);
    return seen != 0;
  }

  // Sets scores of pairs that are not kept to -infinity. Rows begin with `row`, columns with `column`; each
  // 16 rows are in one block.
  template <int kM, int kN>
  __device__ void hide_of_queries(float (&s)[kM][kN][4], i64 head, int row, int column) const {
#pragma unroll
    for (int m = 0; m < kM; ++m) {
      const std::uint32_t kept = bits(head, block(row + 16 * m), column, 8 * kN);
#pragma unroll
      for (int n = 0; n < kN; ++n)
        if ((kept >> (8 * n >> blocks_.shift) & 1) == 0) hide(s[m][n]);
    }
  }
  template <int kN>
  __device__ void hide_of_keys(float (&s)[1][kN][4], i64 head, int row, int column) const {
#pragma unroll
    for (int n = 0; n < kN; n += 2)
      if (bits(head, block(column + 8 * n), row, 16) == 0) hide(s[0][n]), hide(s[0][n + 1]);
  }

 private:
  __device__ int block(int row) const { return (row - begin_) >> blocks_.shift; }
  // Bits of a row of the layout for the columns of n keys, in the lowest bits.
  __device__ std::uint32_t bits(i64 head, int row, int key, int n) const {
    const int column = block(key), columns = n >> blocks_.shift;
    const std::uint32_t* at = blocks_.bits + head * blocks_.head_words +
                              smaller(row, blocks_.rows - 1) * blocks_.words + column / 32;
    return *at >> column % 32 & (columns < 2 ? 1u : (1u << columns) - 1);
  }
  static __device__ void hide(float (&s)[4]) {
#pragma unroll
    for (float& x : s) x = kLowest;
  }

  const Blocks blocks_;
  int begin_;
};

}  // namespace ft::cuda
