// op::Products on the GPU: one product of cuBLASLt for each term. Small terms come first and a residual or
// bias last, so that sums which are rounded on the way are small. Weights in 4 bits are made dense a part
// at a time.
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
    std::byte* dense;  // for parts of weights in 4 bits
    std::int64_t dense_bytes;
    const float* map;  // nested_map() on the device
  };
  // tuning: as Gemm's.
  Products(const Gpu&, const Workspace&, const std::string& tuning);

  void run(const op::Products&);

 private:
  void multiply(Tensor y, const Term& term, float alpha, Tensor c);
  void multiply_four_bit(Tensor y, const Term& term, float alpha, Tensor c);

  cudaStream_t stream_;
  Workspace workspace_;
  Gemm gemm_;
};

}  // namespace ft::cuda
