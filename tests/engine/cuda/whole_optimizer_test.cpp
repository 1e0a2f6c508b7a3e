// Parts of the steps of Adafactor and Muon: the CUDA backend against the CPU's.
#include "tests/engine/cuda/both.h"

namespace ft::cuda {
namespace {

TEST(CudaWholeOptimizer, FactoredAndMomentum) {
  for (const auto& [rows, cols] : {std::pair{1, 7}, {40, 33}, {70, 1032}}) {
    Trial t{.rows = rows, .cols = cols};
    for (std::uint64_t seed = 1; seed < 4; ++seed) t.matrix(seed);
    for (const std::int64_t n : {rows, cols}) t.vector(n, DType::f32).randomize(4);
    for (Matrix& m : t.made)
      for (std::int64_t r = 0; &m != &t.made.front() && r < m.tensor.rows(); ++r)
        for (std::int64_t c = 0; c < m.tensor.cols(); ++c) m.set(r, c, 0.01 + std::abs(m.get(r, c)));
    t.vector(1, DType::f64).set(0, 0, 0);
    t.expect_same([](Ops& ops, const Tensors& x) {
      const Tensor &grad = x[0], &row = x[3], &col = x[4], &sum = x[5];
      ops.run(op::FactoredMeans{
          .row = row, .col = col, .grad = grad, .beta2 = 0.9, .eps = 1e-3, .grad_scale = 0.5f});
      ops.run(op::Sum{sum, row});
      ops.run(op::FactoredUpdate{.grad = grad, .row = row, .col = col, .row_sum = sum, .grad_scale = 0.5f});
      ops.run(op::RootUpdate{.v = x[1], .grad = grad, .beta2 = 0.9, .eps = 1e-3, .grad_scale = 0.5f});
      for (const bool nesterov : {false, true})
        ops.run(op::MuonMomentum{
            .m = x[2], .grad = grad, .momentum = 0.9, .nesterov = nesterov, .grad_scale = 0.5f});
    });
  }
}

TEST(CudaWholeOptimizer, ScaleAndDescend) {
  for (const std::int64_t n : {1, 7, 2051})
    for (const double squares : {0.0, 9.0}) {
      Trial t;
      for (std::uint64_t seed = 1; seed < 3; ++seed) t.vector(n, DType::f32).randomize(seed);
      t.vector(n, DType::bf16).randomize(3);
      t.vector(1, DType::f64).set(0, 0, squares);
      t.expect_same(
          [](Ops& ops, const Tensors& x) {
            const Tensor &p = x[0], &u = x[1], &narrow = x[2], &sum = x[3];
            ops.run(op::Descend{.master = p, .update = narrow, .keep = 0.9, .rate = 0.1});
            ops.run(op::Scale{.y = narrow, .x = u, .by = 3, .squares = sum, .least = 0.5});
            ops.run(op::Scale{.y = u, .x = narrow, .by = -2});
            ops.run(op::Descend{.master = p,
                                .update = u,
                                .keep = 0.9,
                                .rate = 0.1,
                                .squares = sum,
                                .count = 4,
                                .threshold = 0.5});
          },
          Trial::rounding(DType::bf16));
    }
}

}  // namespace
}  // namespace ft::cuda
