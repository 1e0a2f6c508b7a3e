// One dense product on cuBLASLt. What it decides for a shape (descriptors and an algorithm) is kept, so that
// a step asks it nothing new after the first.
#pragma once
#include <array>
#include <map>
#include <memory>

#include "engine/core/tensor.h"
#include "engine/cuda/cublaslt.h"

namespace ft::cuda {

// y (m, n) = alpha op(a) (m, k) op(b) (k, n) + c, row-major, summed in f32. c: empty, y itself, or another
// (m, n) tensor.
struct GemmCall {
  Tensor y, a;
  bool transpose_a;
  Tensor b;
  bool transpose_b;
  Tensor c;
  float alpha;
};

class Gemm {
 public:
  // workspace: device memory for cuBLASLt, `bytes` of it.
  Gemm(cudaStream_t stream, std::byte* workspace, std::int64_t bytes);
  ~Gemm();
  Gemm(const Gemm&) = delete;
  Gemm& operator=(const Gemm&) = delete;

  void run(const GemmCall&);

 private:
  using Key = std::array<std::int64_t, 15>;  // all that a plan depends on
  struct Plan;
  static Key key_of(const GemmCall&);
  std::unique_ptr<Plan> make_plan(const Key&) const;

  const CublasLt& lt_;
  cublasLtHandle_t handle_ = nullptr;
  cudaStream_t stream_;
  std::byte* workspace_;
  std::int64_t bytes_;
  std::map<Key, std::unique_ptr<Plan>> plans_;
};

}  // namespace ft::cuda
