// op::Products on the GPU: in one pass if ft's own kernel computes it (one_pass.h), else one cuBLASLt product
// for each term. In the second case small terms come first and a residual or bias last, so that sums that are
// rounded on the way are small. Weights in 4 bits and in FP8 are decoded.
#pragma once
#include <string>

#include "engine/cuda/gemm/gemm.h"
#include "engine/cuda/gemm/one_pass.h"
#include "engine/cuda/kernels/kernels.h"
#include "engine/ops/ops.h"

namespace ft::cuda {

class Products {
 public:
  struct Workspace {
    std::byte* blas;  // for cuBLASLt
    std::int64_t blas_bytes;
    std::byte* dense;  // for decoded weights, or parts of them, and for operands in FP8
    std::int64_t dense_bytes;
    const float* map;  // nested_map() on the device
    std::byte* sums;   // for partial sums
    std::int64_t sums_bytes;
  };
  // tuning: see Gemm.
  Products(const Gpu&, const Workspace&, ProductKernels, const std::string& tuning);

  void run(const op::Products&);
  void run(const op::NarrowGrad&);
  void run(const op::Hadamard&);
  std::int64_t dense_bytes() const { return workspace_.dense_bytes; }
  void make_dense_in(std::byte* memory, std::int64_t bytes) {
    workspace_.dense = memory, workspace_.dense_bytes = bytes;
  }

 private:
  using Terms = std::span<const Term* const>;
  bool in_one_read(const op::NarrowGrad&) const;
  std::int64_t at_once(std::int64_t columns, Terms) const;
  void run_in_one_pass(const op::Products&, Terms, std::int64_t columns);
  void run_one_by_one(const op::Products&, Terms);
  void multiply(Tensor y, const Term& term, float alpha, Tensor c);
  Tensor make_dense(const Term& term, std::int64_t begin, std::int64_t end, std::byte* at) const;
  void multiply_decoded(Tensor y, const Term& term, float alpha, Tensor c);

  const Gpu& gpu_;
  cudaStream_t stream_;
  int capability_;
  ProductKernels kernels_;
  Workspace workspace_;
  OnePassProducts one_pass_;
  Gemm gemm_;
};

}  // namespace ft::cuda
