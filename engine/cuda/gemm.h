// One dense product on cuBLASLt. What it decides for a shape (descriptors and an algorithm) is kept, so that
// a step asks it nothing new after the first.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "engine/cuda/gemm_file.h"
#include "engine/cuda/gemm_plan.h"
#include "engine/cuda/gpu.h"

namespace ft::cuda {

class Gemm {
 public:
  // workspace: device memory for cuBLASLt, `bytes` of it. tuning: the file of training.gemm_tuning; with one
  // the algorithms are those that were measured to be the fastest; empty: cuBLASLt chooses.
  Gemm(const Gpu&, std::byte* workspace, std::int64_t bytes, const std::string& tuning);
  ~Gemm();
  Gemm(const Gemm&) = delete;
  Gemm& operator=(const Gemm&) = delete;

  void run(const GemmCall&);

 private:
  cublasLtMatmulAlgo_t fastest(const GemmPlan&, const GemmKey&, const GemmCall&);

  const Gpu& gpu_;
  GemmQueue queue_;
  std::optional<GemmFile> file_;
  std::map<GemmKey, std::unique_ptr<GemmPlan>> plans_;
};

}  // namespace ft::cuda
