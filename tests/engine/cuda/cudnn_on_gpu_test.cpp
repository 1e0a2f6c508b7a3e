// On a GPU: attention by cuDNN against ft's own kernels, for shapes that cuDNN takes and for others.
#include "engine/cuda/cuda_ops.h"
#include "engine/ops/ops.h"
#include "tests/engine/cuda/cudnn_cases.h"

namespace ft::cuda {
namespace {

TEST(CudnnOnGpu, IsFtsOwnAttention) {
  if (!cudnn_version()) GTEST_SKIP() << "there is no cuDNN";
  const auto own = make_cuda_ops(0);
  const auto cudnn = make_cuda_ops(0, CudaWorkspace::of(AttentionKernels::vendor));
  std::vector<CudnnCase> cases = cudnn_cases();
  cases.push_back({.starts = {0, 1000}, .heads = {4, 4, 128}, .causal = false});
  cases.push_back({.starts = {0, 2048}, .heads = {32, 8, 128}});
  cases.push_back({.starts = {0, 100, 1400, 1500, 4000, 4096}, .heads = {32, 8, 128}});
  for (const CudnnCase& c : cases) {
    SCOPED_TRACE(c.name());
    const auto want = c.results(*own), got = c.results(*cudnn), again = c.results(*cudnn);
    for (std::size_t i = 0; i < want.size(); ++i)
      EXPECT_LE(difference(got[i], want[i]), 1e-4) << "tensor " << i;
    EXPECT_EQ(got, again) << "it is not deterministic";
  }
}

}  // namespace
}  // namespace ft::cuda
