#include "engine/cuda/gemm_timing.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "engine/cuda/status.h"

namespace ft::cuda {
namespace {

constexpr int kRuns = 5;  // that are timed

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

// A matrix of the GPU, kept on the host, where there is room: a gradient can be large.
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
    gpu_.synchronize();  // the copy would block, without watching meanwhile
    check(cudaMemcpy2DAsync(to, to_pitch, from, from_pitch, width_, rows_, kind, gpu_.stream()),
          "saving a sum while timing products");
    gpu_.synchronize();
  }

  const Gpu& gpu_;
  void* device_;
  std::size_t rows_, width_, pitch_;  // the last two in bytes
  std::vector<std::byte> bytes_;
};

}  // namespace

std::vector<double> microseconds(const Gpu& gpu, const GemmPlan& plan,
                                 std::span<const cublasLtMatmulAlgo_t> algorithms, const GemmCall& g) {
  std::optional<OnHost> kept;
  if (g.c.data == g.y.data) kept.emplace(gpu, g.y);  // each run adds to it
  const Event begin, end;
  std::vector<double> times;
  for (const cublasLtMatmulAlgo_t& algorithm : algorithms) {
    bool runs = plan.run(g, algorithm) == CUBLAS_STATUS_SUCCESS;
    check(cudaEventRecord(begin, gpu.stream()), "timing a product");
    for (int i = 0; i < kRuns && runs; ++i) runs = plan.run(g, algorithm) == CUBLAS_STATUS_SUCCESS;
    check(cudaEventRecord(end, gpu.stream()), "timing a product");
    gpu.synchronize();
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, begin, end), "timing a product");
    times.push_back(runs ? 1e3 * static_cast<double>(milliseconds) / kRuns
                         : std::numeric_limits<double>::infinity());
  }
  if (kept) kept->put_back();
  return times;
}

}  // namespace ft::cuda
