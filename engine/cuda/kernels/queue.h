// What kernels are given beside their operands.
#pragma once
#include <cuda_runtime.h>

#include "engine/ops/view.h"

namespace ft::cuda {

// Why an index of the data was skipped.
enum class Wrong : std::int32_t {
  none,
  position,
  id,
  gathered_row,
  scattered_row,
  column,
  target,
  key,
  expert
};

constexpr int kSumParts = 1024;

// Where kernels are queued, and what they may write beside their results.
struct Queue {
  cudaStream_t stream;
  std::int32_t* wrong;  // a Wrong, for operations with indices; the last one found stays
  double* partial;      // (kSumParts)
};

}  // namespace ft::cuda
