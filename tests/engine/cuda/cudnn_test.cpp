// Attention by cuDNN, with its graphs computed operation by operation on the host, against the CPU's.
#include "tests/cuda_on_cpu/cudnn_graphs.h"

#include "tests/engine/cuda/cudnn_cases.h"

namespace ft::cuda {
namespace {

std::unique_ptr<Ops> with_cudnn(std::int64_t bytes) {
  CudaWorkspace w = kSmall;
  w.cudnn = bytes;
  w.delta = 16384;  // enough for gradients by ft's own kernels
  return make_cuda_ops(0, w);
}

// Returns how many plans a forward pass and its gradient have run; compares the results with the CPU's.
int runs_of(const CudnnCase& c, std::int64_t bytes) {
  static cpu::CpuOps cpu(2);
  const auto ops = with_cudnn(bytes);
  const int before = cuda_on_cpu::cudnn_runs();
  const auto got = c.results(*ops), want = c.results(cpu);
  for (std::size_t i = 0; i < want.size(); ++i)
    EXPECT_LE(difference(got[i], want[i]), 3e-5) << "tensor " << i;
  return cuda_on_cpu::cudnn_runs() - before;
}

TEST(CudnnOnCpu, IsTheCpusAttention) {
  for (const CudnnCase& c : cudnn_cases()) {
    SCOPED_TRACE(c.name());
    EXPECT_GE(runs_of(c, 8 << 20), 2);
  }
}

// 300 rows are padded to 512. A gradient needs 1 MiB of scores for each sequence, and some smaller memory. A
// forward pass needs less and takes both sequences at once.
TEST(CudnnOnCpu, TakesAsManySequencesAsFit) {
  const CudnnCase c{.starts = {0, 300, 600}, .heads = {2, 2, 64}};
  EXPECT_EQ(runs_of(c, 4 << 20), 1 + 1);
  EXPECT_EQ(runs_of(c, (2 << 20) + (1 << 16)), 1 + 2);
  EXPECT_EQ(runs_of(c, (1 << 20) + (1 << 17)), 1 + 0) << "the gradient is ft's own";
  EXPECT_EQ(runs_of(c, 1 << 19), 0);
}

// Layers of one batch, and batches in turn that need other plans and other offsets.
TEST(CudnnOnCpu, BatchesTakeTurns) {
  const auto ops = with_cudnn(8 << 20);
  static cpu::CpuOps cpu(2);
  const CudnnCase one{.starts = {0, 5, 205}, .heads = {2, 2, 64}},
      other{.starts = {0, 201, 205, 230}, .heads = {2, 2, 64}};
  for (const CudnnCase* c : {&one, &one, &other, &one}) {
    const auto got = c->results(*ops), want = c->results(cpu);
    for (std::size_t i = 0; i < want.size(); ++i)
      EXPECT_LE(difference(got[i], want[i]), 3e-5) << "tensor " << i;
  }
}

TEST(CudnnOnCpu, LeavesOtherAttentionToFtsKernels) {
  EXPECT_EQ(runs_of({.starts = {0, 40}, .heads = {1, 1, 64}, .type = DType::f32}, 8 << 20), 0);
  EXPECT_EQ(runs_of({.starts = {0, 20}, .heads = {1, 1, 136}}, 8 << 20), 0);
  EXPECT_EQ(runs_of({.starts = {0, 20}, .heads = {1, 1, 36}}, 8 << 20), 0);
}

}  // namespace
}  // namespace ft::cuda
