// op::Products on the GPU: one product of cuBLASLt for each term, the small ones first, so that what is
// rounded between them is small too; weights in 4 bits are made dense.
#pragma once
#include <string>

#include "engine/cuda/gemm.h"
#include "engine/cuda/kernels/kernels.h"
#include "engine/ops/ops.h"

namespace ft::cuda {

class Products {
 public:
  struct Workspace {
    std::byte* blas;  // for cuBLASLt
    std::int64_t blas_bytes;
    std::byte* dense;  // for weights in 4 bits, or parts of them
    std::int64_t dense_bytes;
    const float* map;  // nested_map() on the device
  };
  // tuning: as Gemm's.
  Products(const Gpu&, const Workspace&, const std::string& tuning);

  void run(const op::Products&);
  std::int64_t dense_bytes() const { return workspace_.dense_bytes; }
  void make_dense_in(std::byte* memory, std::int64_t bytes) {
    workspace_.dense = memory, workspace_.dense_bytes = bytes;
  }

 private:
  void multiply(Tensor y, const Term& term, float alpha, Tensor c);
  void multiply_four_bit(Tensor y, const Term& term, float alpha, Tensor c);

  cudaStream_t stream_;
  Workspace workspace_;
  Gemm gemm_;
};

}  // namespace ft::cuda
