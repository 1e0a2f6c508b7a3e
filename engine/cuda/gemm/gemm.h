// Dense products, one at a time, on cuBLASLt. Its choice for a shape (descriptors and an algorithm) is kept,
// so that steps after the first do not query it again. Batches whose lengths always differ cost few queries
// and little memory: the algorithm is that for a rounded number of rows, and only the most recently used
// shapes are kept. The algorithm depends only on the shape, not on earlier products.
#pragma once
#include <list>
#include <map>
#include <optional>
#include <string>

#include "engine/cuda/gemm/gemm_file.h"
#include "engine/cuda/gemm/gemm_plan.h"
#include "engine/cuda/gpu.h"

namespace ft::cuda {

class Gemm {
 public:
  // workspace: device memory for cuBLASLt, `bytes` of it. tuning: path of the file of training.gemm_tuning;
  // with a file, the algorithms that were measured as the fastest are used; empty: cuBLASLt chooses.
  Gemm(const Gpu&, std::byte* workspace, std::int64_t bytes, const std::string& tuning);
  ~Gemm();
  Gemm(const Gemm&) = delete;
  Gemm& operator=(const Gemm&) = delete;

  void run(const GemmCall&);

 private:
  using Algorithm = cublasLtMatmulAlgo_t;
  struct Kept {
    Kept(const GemmQueue& queue, const GemmKey& of) : key(of), plan(queue, of) {}
    GemmKey key;
    GemmPlan plan;
  };
  const GemmPlan& plan_of(const GemmKey&, const GemmCall&);
  Algorithm usual(const GemmPlan&, const GemmKey&);
  Algorithm fastest(const GemmPlan&, const GemmKey&, const GemmCall&);

  const Gpu& gpu_;
  GemmQueue queue_;
  std::optional<GemmFile> file_;
  std::map<GemmKey, Algorithm> usual_;  // by with_rounded_rows()
  std::list<Kept> kept_;                // the most recently used first
  std::map<GemmKey, std::list<Kept>::iterator> plans_;
};

}  // namespace ft::cuda
