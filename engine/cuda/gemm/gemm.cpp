#include "engine/cuda/gemm/gemm.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "engine/core/error.h"
#include "engine/cuda/gemm/gemm_timing.h"
#include "engine/cuda/status.h"

namespace ft::cuda {
namespace {

constexpr int kMostCandidates = 32;
constexpr std::size_t kMostKept = 4096;  // number of shapes, about 2 KB each; a step has some hundred

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
  kept_.clear();
  queue_.lt.destroy(queue_.handle);
}

void Gemm::run(const GemmCall& g) {
  const GemmPlan& plan = plan_of(key_of(g), g);
  check(plan.run(g, plan.chosen), "cublasLtMatmul");
}

const GemmPlan& Gemm::plan_of(const GemmKey& key, const GemmCall& g) {
  if (const auto known = plans_.find(key); known != plans_.end()) {
    kept_.splice(kept_.begin(), kept_, known->second);
    return kept_.front().plan;
  }
  if (kept_.size() == kMostKept) {
    plans_.erase(kept_.back().key);
    kept_.pop_back();
  }
  std::list<Kept> made;
  GemmPlan& plan = made.emplace_back(queue_, key).plan;
  plan.chosen = file_ ? fastest(plan, key, g) : usual(plan, key);
  kept_.splice(kept_.begin(), made);
  plans_[key] = kept_.begin();
  return plan;
}

Gemm::Algorithm Gemm::usual(const GemmPlan& plan, const GemmKey& key) {
  const GemmKey rounded = with_rounded_rows(key);
  auto known = usual_.find(rounded);
  if (known == usual_.end())
    known = usual_.emplace(rounded, GemmPlan(queue_, rounded).candidates(1).front()).first;
  return plan.usable(known->second) ? known->second : plan.candidates(1).front();
}

Gemm::Algorithm Gemm::fastest(const GemmPlan& plan, const GemmKey& key, const GemmCall& g) {
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
