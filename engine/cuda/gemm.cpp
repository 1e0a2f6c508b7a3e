#include "engine/cuda/gemm.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "engine/core/error.h"
#include "engine/cuda/gemm_timing.h"
#include "engine/cuda/status.h"

namespace ft::cuda {
namespace {

constexpr int kMostCandidates = 8;

GemmMachine machine_of(const Gpu& gpu, const GemmQueue& queue) {
  cudaDeviceProp about{};
  check(cudaGetDeviceProperties(&about, gpu.index()), "querying the GPU");
  return {.gpu = about.name,
          .compute_capability = str(about.major, ".", about.minor),
          .cublaslt = static_cast<std::int64_t>(queue.lt.version()),
          .workspace = queue.bytes};
}

}  // namespace

Gemm::Gemm(const Gpu& gpu, std::byte* workspace, std::int64_t bytes, const std::string& tuning)
    : gpu_(gpu), queue_{cublaslt(), nullptr, gpu.stream(), workspace, bytes} {
  if (!tuning.empty()) file_.emplace(tuning, machine_of(gpu, queue_));
  check(queue_.lt.create(&queue_.handle), "cublasLtCreate");
}
Gemm::~Gemm() {
  plans_.clear();
  queue_.lt.destroy(queue_.handle);
}

void Gemm::run(const GemmCall& g) {
  const GemmKey key = key_of(g);
  auto& plan = plans_[key];
  if (!plan) {
    auto made = std::make_unique<GemmPlan>(queue_, key);
    made->chosen = file_ ? fastest(*made, key, g) : made->candidates(1).front();
    plan = std::move(made);
  }
  check(plan->run(g, plan->chosen), "cublasLtMatmul");
}

cublasLtMatmulAlgo_t Gemm::fastest(const GemmPlan& plan, const GemmKey& key, const GemmCall& g) {
  using Algorithm = cublasLtMatmulAlgo_t;
  const auto usable = [&](const AlgorithmBytes& a) { return plan.usable(std::bit_cast<Algorithm>(a)); };
  if (const auto known = file_->find(key, usable)) return std::bit_cast<Algorithm>(*known);
  std::vector<Algorithm> candidates = plan.candidates(kMostCandidates);
  const Algorithm usual = candidates.front();
  std::erase_if(candidates, [&](const Algorithm& a) { return !plan.usable(a); });
  if (candidates.empty()) return usual;
  const std::vector<double> times = microseconds(gpu_, plan, candidates, g);
  const auto best = std::min_element(times.begin(), times.end()) - times.begin();
  if (std::isinf(times[static_cast<std::size_t>(best)])) return usual;
  return std::bit_cast<Algorithm>(file_->keep(
      key, std::bit_cast<AlgorithmBytes>(candidates[static_cast<std::size_t>(best)]), times, usable));
}

}  // namespace ft::cuda
