// Sums of products on Hopper in one pass: all terms and c are added in f32 and rounded once.
#pragma once
#include <cuda_runtime.h>

#include "engine/cuda/gemm/tensor_maps.h"
#include "engine/ops/view.h"

namespace ft::cuda {

// y (m, n) = alpha * sum of op(a) (m, k) op(b) (k, n) + c. All terms have the same layout: a is stored as (m,
// k) or, with `a_down`, as (k, m); b as (n, k) or, with `b_down`, as (k, n).
struct OnePass {
  static constexpr int kMostTerms = 8;
  // Maps of a term's operands. Boxes have kBoxRows; with a_down or b_down, kBoxRowsDown.
  struct Operands {
    TensorMap a, b;
    int depth;
  };
  Operands terms[kMostTerms];  // in the order of their addition
  int count;
  View y, c;       // c: null, y, or another matrix of y's type; its rows begin at multiples of four elements
  bool every_row;  // c is one row, of y's type or the operands' type
  float alpha;
};
constexpr int kBoxRows = 128, kBoxRowsDown = 64;
// Sizes of the tiles of y.
constexpr int kTileRows = 128, kTileColumns = 256;
constexpr std::int64_t tiles_of(std::int64_t rows, std::int64_t cols) {
  return (rows + kTileRows - 1) / kTileRows * ((cols + kTileColumns - 1) / kTileColumns);
}

// Number of blocks that run at the same time on this GPU; 0: it cannot run them.
int one_pass_blocks();
// operands: bf16 or f16. a_down requires b_down. blocks: one_pass_blocks().
void one_pass(cudaStream_t, const OnePass&, DType operands, bool a_down, bool b_down, int blocks);

}  // namespace ft::cuda
