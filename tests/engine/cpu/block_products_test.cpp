// Products of blocks of columns with square matrices, skew-symmetric matrices, and their gradients, of every
// target.
#include "tests/engine/cpu/leaf_fixture.h"

namespace ft::cpu {
namespace {

// Calls f(n, matrices) for sizes below, at and beyond the kernels' tiles.
void each_size(auto f) {
  for (const std::int64_t n : {1, 3, 70})
    for (const std::int64_t matrices : {1, 2, 4}) f(n, matrices);
}

TEST(BlockProducts, AreThoseOfTheBlocksWithTheirGradient) {
  each_trial({{1, 0}, {5, 0}, {67, 0}}, [](const Trial& s) {
    each_size([&](std::int64_t n, std::int64_t matrices) {
      if (s.rows > 5 && n > 3) return;  // many rows and large matrices are tried apart
      const std::int64_t cols = 4 * n, of_b = matrices * n;
      Matrix &x = s.matrix(s.rows, cols, s.type).randomize(1), &y = s.matrix(s.rows, cols, s.type),
             &dy = s.matrix(s.rows, cols, s.type).randomize(2);
      Matrix &b = s.matrix(n, of_b, DType::f32).randomize(3),
             &db = s.matrix(n, of_b, DType::f32).randomize(4);
      std::vector<double> want(std::size_t(s.rows * cols)), grads = db.values();
      for (std::int64_t r = 0; r < s.rows; ++r)
        for (std::int64_t c = 0; c < cols; ++c) {
          const std::int64_t first = c - c % n;
          double& sum = want[std::size_t(r * cols + c)];
          sum = r == c % n ? 2 : 0;
          for (std::int64_t k = 0; k < n; ++k) {
            sum += x.get(r, first + k) * b.get(k, c % of_b);
            grads[std::size_t(k * of_b + c % of_b)] += x.get(r, first + k) * dy.get(r, c);
          }
        }
      s.ops.run(op::BlockProducts{.y = y, .x = x, .b = b, .diagonal = 2});
      EXPECT_LT(nmse(y.values(), want), s.tolerance()) << n << " " << matrices;
      s.ops.run(op::BlockProductsGrad{.db = db, .x = x, .dy = dy});
      EXPECT_LT(nmse(db.values(), grads), 1e-12) << n << " " << matrices;
    });
  });
}

TEST(SkewMatrices, HaveOppositesBelowTheDiagonal) {
  each_trial({{1, 0}}, [](const Trial& s) {
    each_size([&](std::int64_t n, std::int64_t matrices) {
      if (n == 1) return;  // has nothing above its diagonal
      Matrix &above = s.matrix(matrices, n * (n - 1) / 2, DType::f32).randomize(1),
             &q = s.matrix(n, matrices * n, DType::f32),
             &dq = s.matrix(n, matrices * n, DType::f32).randomize(2);
      std::vector<double> grads = above.values(), want(std::size_t(n * matrices * n));
      std::size_t place = 0;
      for (std::int64_t j = 0; j < matrices; ++j)
        for (std::int64_t r = 0; r < n; ++r)
          for (std::int64_t c = r + 1; c < n; ++c, ++place) {
            want[std::size_t(r * matrices * n + j * n + c)] = -grads[place];
            want[std::size_t(c * matrices * n + j * n + r)] = grads[place];
          }
      s.ops.run(op::SkewMatrices{.y = q, .x = above, .sign = -1});
      EXPECT_EQ(q.values(), want) << n << " " << matrices;
      place = 0;
      for (std::int64_t j = 0; j < matrices; ++j)
        for (std::int64_t r = 0; r < n; ++r)
          for (std::int64_t c = r + 1; c < n; ++c)
            grads[place++] += dq.get(r, j * n + c) - dq.get(c, j * n + r);
      s.ops.run(op::SkewMatricesGrad{.dx = above, .dy = dq});
      EXPECT_LT(nmse(above.values(), grads), 1e-12) << n << " " << matrices;
    });
  });
}

TEST(BlockProducts, OtherShapesAreRefused) {
  CpuOps ops(1);
  Matrix y(2, 6, DType::f32), x(2, 6, DType::f32), wide(2, 8, DType::f32), b(3, 6, DType::f32),
      odd(3, 5, DType::f32), above(2, 3, DType::f32);
  EXPECT_THROW(ops.run(op::BlockProducts{.y = y, .x = x, .b = odd}), InternalError);
  EXPECT_THROW(ops.run(op::BlockProducts{.y = y, .x = wide, .b = b}), InternalError);
  EXPECT_THROW(ops.run(op::BlockProductsGrad{.db = odd, .x = x, .dy = y}), InternalError);
  EXPECT_THROW(ops.run(op::SkewMatrices{.y = odd, .x = above}), InternalError);
  EXPECT_THROW(ops.run(op::SkewMatrices{.y = b, .x = x}), InternalError);
}

}  // namespace
}  // namespace ft::cpu
