// Runs a computation on the CPU and, including its kernels, on the CUDA backend compiled for the host.
// Threads and blocks run in three orders, which must give the same bytes. Guards around and between rows must
// stay unchanged, and results must be close to the CPU's.
#pragma once
#include <gtest/gtest.h>

#include <functional>
#include <list>
#include <vector>

#include "engine/core/error.h"
#include "engine/cpu/cpu_ops.h"
#include "engine/cuda/cuda_ops.h"
#include "engine/ops/ops.h"
#include "tests/support/attention_pair.h"
#include "tests/support/matrix.h"

namespace ft::cuda {

using test::Matrix;
using test::nmse;

// Sets the order of a block's threads and of a grid's blocks on the host; 0 is the plain one. Has no effect
// on a GPU.
constexpr int kOrders = 3;
void set_order(int);
// Orders that a trial compares: all of them; one in builds with sanitizers, whose checks hold in any order.
int orders_of_trial();
// The compute capabilities for which attention has different kernels. On the host, tests set one of them, 8
// at first. On a GPU, its own capability is the only one.
std::vector<int> capabilities();
void set_capability(int);
// Returns true if NCCL is installed; on the host, installs its stand-in.
bool use_nccl();

// Workspaces so small that every loop over them runs several times.
constexpr CudaWorkspace kSmall{
    .blas = 4096, .dense = 8192, .delta = 2048, .tiles = 65536, .staging = 8192, .cache = 4096};

// A copy of a matrix on the GPU, with the same stride and alignment as on the host.
class OnGpu {
 public:
  OnGpu(Ops& ops, const Matrix& m, std::int64_t offset) : ops_(ops) {
    const Tensor& t = m.tensor;
    const std::int64_t size = size_of(t.dtype);
    bytes_ = t.rows() == 0 ? 0 : ((t.rows() - 1) * t.stride + t.cols()) * size;
    memory_ = ops.allocate(bytes_ + offset * size);
    std::byte* data = memory_.get() + offset * size;
    ops.upload(raw(data), t.data);
    tensor = Tensor(data, t.dtype, t.shape, t.stride);
  }
  void download(Matrix& to) const { ops_.download(to.tensor.data, raw(tensor.data)); }
  Tensor tensor;

 private:
  Tensor raw(std::byte* data) const { return {data, DType::u8, {bytes_}}; }
  Ops& ops_;
  Buffer memory_;
  std::int64_t bytes_;
};

// Returns the squared error over all elements, relative to the larger of their squares and of squares of
// numbers around 0.3. The lower limit is for the gradient of a query that sees one key: it is a difference of
// numbers near 1 and consists of rounding only.
inline double difference(const std::vector<double>& got, const std::vector<double>& want) {
  double squares = 0;
  for (const double w : want) squares += w * w;
  const double least = 0.1 * static_cast<double>(want.size());
  return nmse(got, want) * (squares > 0 ? squares / std::max(squares, least) : 1);
}

using Tensors = std::vector<Tensor>;
using Call = std::function<void(Ops&, const Tensors&)>;

struct Trial {
  DType type = DType::f32;
  std::int64_t rows = 1, cols = 1, pad = 0;
  std::int64_t offset = 0;  // elements from an aligned address
  CudaWorkspace sizes = kSmall;
  std::list<Matrix> made{};

  Matrix& matrix(std::int64_t r, std::int64_t c, DType t) { return made.emplace_back(r, c, t, pad); }
  Matrix& matrix(std::uint64_t seed) { return matrix(rows, cols, type).randomize(seed); }
  Matrix& vector(std::int64_t n, DType t) { return made.emplace_back(1, n, t); }
  Matrix& indices(std::int64_t n, std::int64_t below) {
    return vector(n, DType::i32).randomize_indices(77, below);
  }
  static double rounding(DType t) { return t == DType::bf16 ? 1.6e-5 : t == DType::f16 ? 2.5e-7 : 1e-12; }

  // The call's tensors are the matrices in the order in which they were made. Afterwards these hold the CPU's
  // results.
  void expect_same(const Call& call) { expect_same(call, rounding(type)); }
  void expect_same(const Call& call, double tolerance) {
    auto ops = make_cuda_ops(0, sizes);
    std::vector<std::list<Matrix>> results;
    for (int order = 0; order < orders_of_trial(); ++order) {
      set_order(order);
      std::list<OnGpu> gpu;
      Tensors tensors;
      for (const Matrix& m : made) tensors.push_back(gpu.emplace_back(*ops, m, offset).tensor);
      call(*ops, tensors);
      std::list<Matrix>& got = results.emplace_back();
      auto m = made.begin();
      for (const OnGpu& g : gpu) {
        const Tensor& t = (m++)->tensor;
        g.download(got.emplace_back(t.rows(), t.cols(), t.dtype, t.stride - t.cols()));
      }
    }
    set_order(0);
    static cpu::CpuOps cpu(2);
    Tensors tensors;
    for (const Matrix& m : made) tensors.push_back(m.tensor);
    call(cpu, tensors);
    int number = 0;
    auto want = made.begin();
    for (const Matrix& got : results[0]) {
      SCOPED_TRACE(str("tensor ", number));
      for (const std::list<Matrix>& other : results)
        EXPECT_TRUE(got.same_bytes(*std::next(other.begin(), number))) << "the order of threads matters";
      EXPECT_TRUE(got.intact()) << "bytes between rows changed";
      if (got.tensor.dtype != DType::u8) {
        EXPECT_LE(difference(got.values(), want->values()), tolerance);
      }
      ++want, ++number;
    }
  }
};

struct Size {
  std::int64_t rows, cols;
};
inline const std::vector<Size> kSizes{{1, 1}, {3, 5}, {2, 16}, {5, 63}, {79, 211}, {2, 4136}};

template <class Test>
void each_trial(Test run) {
  for (const DType type : {DType::f32, DType::bf16, DType::f16})
    for (const Size size : kSizes)
      for (const auto& [pad, offset] : {std::pair{0, 0}, {8, 0}, {3, 1}}) {
        SCOPED_TRACE(str(name_of(type), " ", size.rows, " x ", size.cols, " pad ", pad, " offset ", offset));
        Trial t{type, size.rows, size.cols, pad, offset};
        run(t);
        if (testing::Test::HasFailure()) return;
      }
}

// x: y, lse, q, k, v, dq, dk, dv, dy, bias, dbias.
inline AttentionPair attention_of(const Tensors& x, const Heads& heads, const Mask& mask, Scores scores,
                                  bool biased) {
  if (biased) scores.bias = x[9];
  return {.y = x[0],
          .lse = x[1].view({heads.query, x[0].rows()}),
          .q = x[2],
          .k = x[3],
          .v = x[4],
          .dy = x[8],
          .dq = x[5],
          .dk = x[6],
          .dv = x[7],
          .heads = heads,
          .mask = mask,
          .scores = scores,
          .dbias = biased ? x[10] : Tensor{}};
}

}  // namespace ft::cuda
