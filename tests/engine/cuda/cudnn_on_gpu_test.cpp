// On a GPU: attention by cuDNN beside ft's own, in bf16, where cuDNN takes the shape and where it does not.
#include "engine/cuda/cuda_ops.h"
#include "tests/engine/cuda/both.h"

namespace ft::cuda {
namespace {

struct Sizes {
  std::vector<std::int32_t> starts;
  Heads heads;
  bool causal;
};

// y, lse, dq, dk, dv of one kind of Ops.
std::vector<std::vector<double>> results(Ops& ops, const Sizes& s) {
  const std::int64_t rows = s.starts.back(), width = s.heads.query * s.heads.width,
                     key_width = s.heads.key_value * s.heads.width;
  std::list<Matrix> host;
  std::list<OnGpu> gpu;
  const auto tensor = [&](std::int64_t r, std::int64_t c, DType t, std::uint64_t seed) {
    return gpu.emplace_back(ops, host.emplace_back(r, c, t, t == DType::bf16 ? 32 : 0).randomize(seed), 0)
        .tensor;
  };
  constexpr auto kBf16 = DType::bf16;
  const Tensor q = tensor(rows, width, kBf16, 1), k = tensor(rows, key_width, kBf16, 2),
               v = tensor(rows, key_width, kBf16, 3), dy = tensor(rows, width, kBf16, 4);
  const Tensor y = tensor(rows, width, kBf16, 5), lse = tensor(s.heads.query, rows, DType::f32, 6),
               dq = tensor(rows, width, kBf16, 7), dk = tensor(rows, key_width, kBf16, 8),
               dv = tensor(rows, key_width, kBf16, 9);
  const Mask mask{.starts = s.starts, .causal = s.causal};
  ops.attention(y, lse, q, k, v, s.heads, mask, {0.1f});
  ops.attention_grad(dq, dk, dv, {}, dy, y, lse, q, k, v, s.heads, mask, {0.1f});
  std::vector<std::vector<double>> out;
  auto h = host.begin();
  for (const OnGpu& g : gpu) {
    g.download(*h);
    out.push_back((h++)->values());
  }
  return out;
}

TEST(CudnnOnGpu, IsFtsOwnAttention) {
  if (!cudnn_version()) GTEST_SKIP() << "there is no cuDNN";
  const auto own = make_cuda_ops(0);
  const auto cudnn = make_cuda_ops(0, CudaWorkspace::of({Device::Kind::cuda, 0, true}));
  for (const Sizes& s : {Sizes{{0, 512}, {4, 4, 64}, true}, Sizes{{0, 256, 512}, {8, 2, 128}, true},
                         Sizes{{0, 1000}, {4, 4, 128}, false}, Sizes{{0, 300, 512}, {4, 2, 64}, true},
                         Sizes{{0, 2048}, {32, 8, 128}, true}}) {
    SCOPED_TRACE(str(s.starts.back(), " rows, ", s.heads.query, "/", s.heads.key_value));
    const auto want = results(*own, s), got = results(*cudnn, s), again = results(*cudnn, s);
    for (std::size_t i = 0; i < want.size(); ++i)
      EXPECT_LE(difference(got[i], want[i]), 1e-4) << "tensor " << i;
    EXPECT_EQ(got, again) << "it is not deterministic";
  }
}

}  // namespace
}  // namespace ft::cuda
