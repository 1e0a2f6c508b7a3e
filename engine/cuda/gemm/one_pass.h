// Sums of products that ft's own kernel computes in one pass (kernels/products_wgmma.h): all terms and c are
// added in f32, and rounded once.
#pragma once
#include <span>

#include "engine/cuda/cuda_ops.h"
#include "engine/cuda/gpu.h"
#include "engine/ops/ops.h"

namespace ft::cuda {

class OnePassProducts {
 public:
  OnePassProducts(const Gpu&, ProductKernels);

  // True if it computes y = the sum of these terms + c. 4-bit weights count as decoded.
  bool takes(const Tensor& y, std::span<const Term* const>, const Tensor& c) const;
  // every_row: c is one row, which is added to every row.
  void run(const Tensor& y, std::span<const Term>, float alpha, const Tensor& c, bool every_row) const;

 private:
  bool fits(const Tensor& y, std::span<const Term* const>, const Tensor& c) const;
  bool gains(const Tensor& y, std::span<const Term* const>, const Tensor& c) const;

  cudaStream_t stream_;
  int blocks_;  // number of blocks that run at the same time; 0: the GPU has no such kernel
  ProductKernels which_;
};

}  // namespace ft::cuda
