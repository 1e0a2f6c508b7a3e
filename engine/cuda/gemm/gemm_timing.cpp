#include "engine/cuda/gemm/gemm_timing.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <list>
#include <optional>

#include "engine/cuda/status.h"

namespace ft::cuda {
namespace {

constexpr int kRounds = 5, kRuns = 4;  // runs of each algorithm per round
constexpr double kSlow = 1.5;  // multiple of the fastest time: slower algorithms skip the other rounds

class Event {
 public:
  Event() { check(cudaEventCreateWithFlags(&event_, cudaEventDefault), "creating an event"); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  operator cudaEvent_t() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

// A copy of a GPU's matrix in the host's memory: the GPU may lack room for a second copy of a large gradient.
class OnHost {
 public:
  OnHost(const Gpu& gpu, const Tensor& t)
      : gpu_(gpu),
        device_(t.data),
        rows_(static_cast<std::size_t>(t.rows())),
        width_(static_cast<std::size_t>(t.cols() * size_of(t.dtype))),
        pitch_(static_cast<std::size_t>(std::max(t.stride, t.cols()) * size_of(t.dtype))),
        bytes_(rows_ * width_) {
    copy(bytes_.data(), width_, device_, pitch_, cudaMemcpyDeviceToHost);
  }
  void put_back() { copy(device_, pitch_, bytes_.data(), width_, cudaMemcpyHostToDevice); }

 private:
  void copy(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch, cudaMemcpyKind kind) {
    gpu_.synchronize();  // the copy would block without calling the GPU's watcher
    check(cudaMemcpy2DAsync(to, to_pitch, from, from_pitch, width_, rows_, kind, gpu_.stream()),
          "saving a sum while timing products");
    gpu_.synchronize();
  }

  const Gpu& gpu_;
  void* device_;
  std::size_t rows_, width_, pitch_;  // width and pitch in bytes
  std::vector<std::byte> bytes_;
};

struct Candidate {
  cublasLtMatmulAlgo_t algorithm;
  Event begin{}, end{};
  std::vector<double> times{};  // us, one for each round

  double middle() const {
    std::vector<double> sorted = times;
    std::sort(sorted.begin(), sorted.end());
    return sorted.empty() ? std::numeric_limits<double>::infinity() : sorted[sorted.size() / 2];
  }
};

void take_turns(const Gpu& gpu, std::span<Candidate* const> turns,
                const std::function<void(const Candidate&)>& run) {
  for (Candidate* c : turns) {
    check(cudaEventRecord(c->begin, gpu.stream()), "timing a product");
    for (int i = 0; i < kRuns; ++i) run(*c);
    check(cudaEventRecord(c->end, gpu.stream()), "timing a product");
  }
  gpu.synchronize();
  for (Candidate* c : turns) {
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, c->begin, c->end), "timing a product");
    c->times.push_back(1e3 * static_cast<double>(milliseconds) / kRuns);
  }
}

}  // namespace

// Algorithms take turns, forwards and backwards, because a GPU's clock drifts with its temperature and power.
std::vector<double> microseconds(const Gpu& gpu, const GemmPlan& plan,
                                 std::span<const cublasLtMatmulAlgo_t> algorithms, const GemmCall& g) {
  std::optional<OnHost> kept;
  if (g.c.data == g.y.data) kept.emplace(gpu, g.y);  // each run adds to it
  const auto run = [&](const Candidate& c) { return plan.run(g, c.algorithm) == CUBLAS_STATUS_SUCCESS; };
  std::list<Candidate> all;
  std::vector<Candidate*> turns;
  for (const cublasLtMatmulAlgo_t& algorithm : algorithms) {
    Candidate& c = all.emplace_back(algorithm);
    if (run(c)) turns.push_back(&c);
  }
  for (int round = 0; round < kRounds && !turns.empty(); ++round) {
    take_turns(gpu, turns, run);
    if (round == 0) {
      double fastest = std::numeric_limits<double>::infinity();
      for (const Candidate* c : turns) fastest = std::min(fastest, c->times[0]);
      std::erase_if(turns, [&](const Candidate* c) { return c->times[0] > kSlow * fastest; });
    }
    std::reverse(turns.begin(), turns.end());
  }
  if (kept) kept->put_back();
  std::vector<double> times;
  for (const Candidate& c : all) times.push_back(c.middle());
  return times;
}

}  // namespace ft::cuda
