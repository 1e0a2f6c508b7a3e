// Sums of products on Hopper in one pass: all terms, and c, are added up in f32 and rounded once.
#pragma once
#include <cuda_runtime.h>

#include "engine/cuda/gemm/tensor_maps.h"
#include "engine/ops/view.h"

namespace ft::cuda {

// y (m, n) = alpha * sum of op(a) (m, k) op(b) (k, n) + c. All terms lie alike in memory: a as (m, k), or,
// `a_down`, as (k, m); b as (n, k), or, `b_down`, as (k, n).
struct OnePass {
  static constexpr int kMostTerms = 8;
  // The maps' boxes have kBoxRows; those of an operand that lies down have kBoxRowsDown.
  struct Operands {
    TensorMap a, b;
    int depth;
  };
  Operands terms[kMostTerms];  // in the order in which they are added up
  int count;
  View y, c;       // c: null, y, another matrix of y's type; its rows begin at multiples of four elements
  bool every_row;  // c is one row, of y's type or the operands'
  float alpha;
};
constexpr int kBoxRows = 128, kBoxRowsDown = 64;
// The blocks of y that it is computed in.
constexpr int kTileRows = 128, kTileColumns = 256;
constexpr std::int64_t tiles_of(std::int64_t rows, std::int64_t cols) {
  return (rows + kTileRows - 1) / kTileRows * ((cols + kTileColumns - 1) / kTileColumns);
}

// Blocks that run at the same time on this GPU; 0: none can.
int one_pass_blocks();
// operands: bf16 or f16. Not a_down without b_down. blocks: one_pass_blocks().
void one_pass(cudaStream_t, const OnePass&, DType operands, bool a_down, bool b_down, int blocks);

}  // namespace ft::cuda
