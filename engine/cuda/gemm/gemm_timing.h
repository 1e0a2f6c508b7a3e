// Measures times of algorithms on this GPU.
#pragma once
#include <span>
#include <vector>

#include "engine/cuda/gemm/gemm_plan.h"
#include "engine/cuda/gpu.h"

namespace ft::cuda {

// Returns for each algorithm the microseconds of this call: the median of some rounds in which they take
// turns; infinite if cuBLASLt does not run it. y is unchanged if it is also c, else undefined. Waits for the
// GPU.
std::vector<double> microseconds(const Gpu&, const GemmPlan&, std::span<const cublasLtMatmulAlgo_t>,
                                 const GemmCall&);

}  // namespace ft::cuda
