// Arguments of kernels in addition to their operands.
#pragma once
#include <cuda_runtime.h>

#include "engine/ops/view.h"

namespace ft::cuda {

// The reason why an index of the data was skipped.
enum class Wrong : std::int32_t {
  none,
  position,
  id,
  gathered_row,
  scattered_row,
  column,
  element,
  target,
  key,
  expert
};

constexpr int kSumParts = 1024;

// The stream for kernels, and memory that they may write in addition to their results.
struct Queue {
  cudaStream_t stream;
  std::int32_t* wrong;  // a Wrong, for operations with indices; the last one stays
  double* partial;      // (kSumParts)
};

}  // namespace ft::cuda
