// Dense products, one at a time, on cuBLASLt. Its choice for a shape (descriptors and an algorithm) is
// kept, so that steps after the first ask it nothing new. Batches of ever new lengths ask little and take
// little memory: a shape has the algorithm of a rounded number of rows, and only the shapes that were used
// last are kept. The algorithm depends on the shape alone, not on earlier products.
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
  // workspace: device memory for cuBLASLt, `bytes` of it. tuning: the file of training.gemm_tuning; with one
  // the algorithms are those that were measured to be the fastest; empty: cuBLASLt chooses.
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
  std::list<Kept> kept_;                // the last used first
  std::map<GemmKey, std::list<Kept>::iterator> plans_;
};

}  // namespace ft::cuda
