// How long algorithms take on this GPU.
#pragma once
#include <span>
#include <vector>

#include "engine/cuda/gemm_plan.h"
#include "engine/cuda/gpu.h"

namespace ft::cuda {

// Of each algorithm: the microseconds of this call, as a mean of a few after one to warm up; infinite where
// cuBLASLt does not run it. y is as before where it is also c, else anything. Waits for the GPU.
std::vector<double> microseconds(const Gpu&, const GemmPlan&, std::span<const cublasLtMatmulAlgo_t>,
                                 const GemmCall&);

}  // namespace ft::cuda
