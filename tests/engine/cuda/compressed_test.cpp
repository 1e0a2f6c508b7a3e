// Messages between ranks in few bits, and the step of 1-bit Adam: the CUDA backend against the CPU's.
#include "tests/engine/cuda/both.h"

namespace ft::cuda {
namespace {

TEST(CudaCompressed, MomentAndStep) {
  for (const std::int64_t n : {1, 7, 2051}) {
    Trial t;
    for (std::uint64_t seed = 1; seed < 6; ++seed) t.vector(n, DType::f32).randomize(seed);
    for (std::int64_t i = 0; i < n; ++i) t.made.front().set(0, i, std::abs(t.made.front().get(0, i)));
    t.expect_same([](Ops& ops, const Tensors& x) {
      const Tensor &v = x[0], &p = x[1], &m = x[2], &e = x[3], &grad = x[4];
      op::PlainAdam step{.master = p, .v = v, .m = m, .lr = 0.1, .beta2 = 0.9, .eps = 1e-3, .decay = 0.1};
      ops.run(step);
      step.grad = grad;
      step.grad_scale = 0.5f;
      ops.run(step);
      ops.run(op::FirstMoment{.y = e, .m = m, .grad = grad, .beta = 0.9, .grad_scale = 0.5f, .adds = true});
      ops.run(op::FirstMoment{.y = m, .m = m, .grad = grad, .beta = 0.9, .grad_scale = 0.5f});
    });
  }
}

TEST(CudaCompressed, Signs) {
  for (const std::int64_t n : {1, 7, 64, 5003}) {
    const std::int64_t bytes = (n + 7) / 8, row = 8 + (bytes + 3) / 4 * 4;
    Trial t;
    for (std::uint64_t seed = 1; seed < 4; ++seed) t.vector(n, DType::f32).randomize(seed);
    t.vector(1, DType::f64).set(0, 0, 9);
    t.vector(2 * row, DType::u8);
    for (std::int64_t i = 0; i < 2 * row; ++i) t.made.back().set(0, i, 0);
    t.expect_same([=](Ops& ops, const Tensors& x) {
      std::byte* const data = x[4].data;
      for (int r = 0; r < 2; ++r)
        ops.run(op::EncodeSigns{.bits = Tensor(data + r * row + 8, DType::u8, {bytes}),
                                .scale = Tensor(data + r * row, DType::f32, {1}),
                                .x = x[static_cast<std::size_t>(r)],
                                .squares = x[3],
                                .count = double(n)});
      ops.run(op::AddSigns{.y = x[2],
                           .bits = Tensor(data + 8, DType::u8, {2, bytes}, row),
                           .scales = Tensor(data, DType::f32, {2, 1}, row / 4),
                           .factor = 0.5f});
    });
  }
}

TEST(CudaCompressed, Blocks) {
  for (const DType type : {DType::f32, DType::bf16, DType::f16})
    for (const int bits : {4, 8})
      for (const auto& [rows, cols] : {std::pair{1, 256}, {3, 1536}}) {
        Trial t{.type = type, .rows = rows, .cols = cols};
        t.matrix(1);
        t.matrix(2);
        t.matrix(rows, cols / 256 * 4, DType::u8);  // f32 scales, then codes
        t.matrix(rows, cols * bits / 8, DType::u8);
        t.expect_same([=](Ops& ops, const Tensors& x) {
          const Tensor scales(x[2].data, DType::f32, {rows, cols / 256});
          ops.run(op::EncodeBlocks{.codes = x[3], .scales = scales, .x = x[0], .bits = bits});
          ops.run(op::DecodeBlocks{.y = x[1], .codes = x[3], .scales = scales, .bits = bits, .adds = true});
          ops.run(op::DecodeBlocks{.y = x[0], .codes = x[3], .scales = scales, .bits = bits});
        });
      }
}

}  // namespace
}  // namespace ft::cuda
