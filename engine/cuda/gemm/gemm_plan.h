// Descriptors of one shape of product for cuBLASLt, and the algorithms that it offers for the shape.
#pragma once
#include <vector>

#include "engine/core/tensor.h"
#include "engine/cuda/gemm/cublaslt.h"
#include "engine/cuda/gemm/gemm_key.h"

namespace ft::cuda {

// y (m, n) = alpha op(a) (m, k) op(b) (k, n) + c, row-major, summed in f32. c: empty, y itself, or another
// (m, n) tensor. With a_scales a and b are codes in FP8 (u8), a is not transposed and b is, and y (i, j) of
// the product is multiplied by a_scales[i] and b_scales[j].
struct GemmCall {
  Tensor y, a;
  bool transpose_a;
  Tensor b;
  bool transpose_b;
  Tensor c;
  float alpha;
  const float *a_scales = nullptr, *b_scales = nullptr;  // (m) and (n)
  bool fast_sums = false;                                // see GemmKey
};
GemmKey key_of(const GemmCall&);

// The stream and workspace of products.
struct GemmQueue {
  const CublasLt& lt;
  cublasLtHandle_t handle;
  cudaStream_t stream;
  std::byte* workspace;  // device memory for cuBLASLt, `bytes` of it
  std::int64_t bytes;
};

// Throws UserError (hardware) if the status is an error.
void check(cublasStatus_t, const char* what);

class GemmPlan {
 public:
  GemmPlan(const GemmQueue&, const GemmKey&);
  ~GemmPlan();
  GemmPlan(const GemmPlan&) = delete;
  GemmPlan& operator=(const GemmPlan&) = delete;

  // Returns at most `most` of cuBLASLt's proposals, the best by its own estimate first. Throws UserError
  // (hardware) if it has none.
  std::vector<cublasLtMatmulAlgo_t> candidates(int most) const;
  // True if cuBLASLt supports the algorithm for this shape, in the workspace, with sums in a fixed order.
  bool usable(const cublasLtMatmulAlgo_t&) const;
  cublasStatus_t run(const GemmCall&, const cublasLtMatmulAlgo_t&) const;

  cublasLtMatmulAlgo_t chosen{};

 private:
  void set_scales(const float* a, const float* b) const;

  const GemmQueue& queue_;
  GemmKey key_;
  cublasLtMatmulDesc_t desc_ = nullptr;
  cublasLtMatrixLayout_t a_ = nullptr, b_ = nullptr, c_ = nullptr, y_ = nullptr;
};

}  // namespace ft::cuda
