// Launches of kernels with one block for each row, which sums over the row.
#pragma once
#include "engine/cuda/kernels/device.cuh"
#include "engine/cuda/kernels/queue.h"

namespace ft::cuda {

struct RowShared {
  float warps[32];  // for block_sum()
};

// most: largest number of threads of a block.
inline Launch a_block_for_each_row(const Queue& queue, i64 rows, i64 cols, i64 most) {
  return {queue.stream, dim3(at_most(rows, kMostGridX)), row_threads(cols, most), sizeof(RowShared)};
}

}  // namespace ft::cuda
