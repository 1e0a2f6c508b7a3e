// LayerNorm of every target.
#include <algorithm>
#include <cmath>

#include "tests/engine/cpu/leaf_fixture.h"
#include "tests/reference/leaf.h"

namespace ft::cpu {
namespace {

constexpr double kEps = 1e-5;

TEST(LayerNorm, IsTheReference) {
  each_trial([](const Trial& s) {
    Matrix &x = s.matrix(1), &y = s.matrix(2), &w = s.vector(s.cols, s.type, 3),
           &b = s.vector(s.cols, s.type, 4);
    Matrix &mean = s.vector(s.rows, DType::f32), &rstd = s.vector(s.rows, DType::f32);
    s.ops.run(op::LayerNorm{.y = y, .mean = mean, .rstd = rstd, .x = x, .w = w, .b = b, .eps = float(kEps)});
    EXPECT_LT(nmse(y.values(), reference::layer_norm(x.values(), w.values(), b.values(), kEps)),
              s.tolerance());
    for (std::int64_t r = 0; r < s.rows; ++r) {
      double sum = 0, squares = 0;
      for (std::int64_t i = 0; i < s.cols; ++i) sum += x.get(r, i);
      for (std::int64_t i = 0; i < s.cols; ++i) squares += std::pow(x.get(r, i) - sum / double(s.cols), 2);
      const double want = 1 / std::sqrt(squares / double(s.cols) + kEps);
      EXPECT_NEAR(mean.get(0, r), sum / double(s.cols), 1e-6);
      EXPECT_NEAR(rstd.get(0, r), want, 1e-5 * want);
    }
  });
}

TEST(LayerNorm, AFarMeanDoesNotHideTheVariance) {
  each_trial({{3, 5}, {2, 100}}, [](const Trial& s) {
    if (s.type != DType::f32) return;
    Matrix &x = s.matrix(1), &y = s.matrix(2), &w = s.vector(s.cols, s.type),
           &b = s.vector(s.cols, s.type, 4);
    Matrix &mean = s.vector(s.rows, DType::f32), &rstd = s.vector(s.rows, DType::f32);
    for (std::int64_t r = 0; r < s.rows; ++r)
      for (std::int64_t i = 0; i < s.cols; ++i) x.set(r, i, 1024 + double(i % 4));
    s.ops.run(op::Fill{w, 1});
    s.ops.run(op::LayerNorm{.y = y, .mean = mean, .rstd = rstd, .x = x, .w = w, .b = b, .eps = float(kEps)});
    EXPECT_LT(nmse(y.values(), reference::layer_norm(x.values(), w.values(), b.values(), kEps)), 1e-8);
  });
}

TEST(LayerNorm, RequestedGradientsAreAdded) {
  each_trial([](const Trial& s) {
    Matrix &x = s.matrix(1), &y = s.matrix(2), &w = s.vector(s.cols, s.type, 3), &dy = s.matrix(4);
    Matrix &b = s.vector(s.cols, s.type, 5), &dx = s.matrix(6);
    Matrix &dw = s.vector(s.cols, DType::f32, 7), &db = s.vector(s.cols, DType::f32, 8);
    Matrix &mean = s.vector(s.rows, DType::f32), &rstd = s.vector(s.rows, DType::f32);
    auto want_dx = dx.values(), want_dw = dw.values(), want_db = db.values();
    reference::layer_norm_grad(want_dx, want_dw, want_db, dy.values(), x.values(), w.values(), kEps);
    s.ops.run(op::LayerNorm{.y = y, .mean = mean, .rstd = rstd, .x = x, .w = w, .b = b, .eps = float(kEps)});
    s.ops.run(op::LayerNormGrad{.dx = dx, .dy = dy, .x = x, .w = w, .mean = mean, .rstd = rstd});
    s.ops.run(op::LayerNormGrad{.dw = dw, .dy = dy, .x = x, .w = w, .mean = mean, .rstd = rstd});
    s.ops.run(op::LayerNormGrad{.db = db, .dy = dy, .x = x, .w = w, .mean = mean, .rstd = rstd});
    // With one column the gradient is 0; the result is rounding, times rstd = 1 / sqrt(eps).
    EXPECT_LT(nmse(dx.values(), want_dx), s.cols == 1 ? std::max(1e-9, s.tolerance()) : s.tolerance());
    EXPECT_LT(nmse(dw.values(), want_dw), s.tolerance(DType::f32));
    EXPECT_LT(nmse(db.values(), want_db), s.tolerance(DType::f32));
  });
}

TEST(LayerNorm, WithoutWeightsTheyAreOne) {
  each_trial([](const Trial& s) {
    Matrix &x = s.matrix(1), &y = s.matrix(2), &z = s.matrix(3), &dy = s.matrix(4);
    Matrix &ones = s.vector(s.cols, s.type, 5), &zeros = s.vector(s.cols, s.type, 6);
    Matrix &mean = s.vector(s.rows, DType::f32), &rstd = s.vector(s.rows, DType::f32);
    s.ops.run(op::Fill{ones, 1});
    s.ops.run(op::Fill{zeros, 0});
    s.ops.run(op::LayerNorm{.y = y, .mean = mean, .rstd = rstd, .x = x, .w = ones, .b = zeros, .eps = 1e-5f});
    s.ops.run(op::LayerNorm{.y = z, .mean = mean, .rstd = rstd, .x = x, .eps = 1e-5f});
    EXPECT_EQ(y.values(), z.values());
    for (Matrix* m : {&y, &z}) s.ops.run(op::Fill{*m, 0});
    s.ops.run(op::LayerNormGrad{.dx = y, .dy = dy, .x = x, .w = ones, .mean = mean, .rstd = rstd});
    s.ops.run(op::LayerNormGrad{.dx = z, .dy = dy, .x = x, .mean = mean, .rstd = rstd});
    EXPECT_EQ(y.values(), z.values());
  });
}

TEST(LayerNorm, AllGradientsAtOnceAreTheSame) {
  CpuOps ops(2);
  Matrix x(9, 70, DType::f32), w(1, 70, DType::f32), dy(9, 70, DType::f32);
  Matrix mean(1, 9, DType::f32), rstd(1, 9, DType::f32);
  Matrix dx(9, 70, DType::f32), dw(1, 70, DType::f32), db(1, 70, DType::f32);
  Matrix dx2(9, 70, DType::f32), dw2(1, 70, DType::f32), db2(1, 70, DType::f32);
  for (Matrix* m : {&x, &w, &dy, &mean, &rstd}) m->randomize(5);
  for (Matrix* m : {&dx, &dw, &db, &dx2, &dw2, &db2}) ops.run(op::Fill{*m, 0});
  ops.run(
      op::LayerNormGrad{.dx = dx, .dw = dw, .db = db, .dy = dy, .x = x, .w = w, .mean = mean, .rstd = rstd});
  ops.run(op::LayerNormGrad{.dx = dx2, .dy = dy, .x = x, .w = w, .mean = mean, .rstd = rstd});
  ops.run(op::LayerNormGrad{.dw = dw2, .db = db2, .dy = dy, .x = x, .w = w, .mean = mean, .rstd = rstd});
  EXPECT_TRUE(dx.same_bytes(dx2));
  EXPECT_TRUE(dw.same_bytes(dw2));
  EXPECT_TRUE(db.same_bytes(db2));
}

TEST(LayerNorm, ReferenceGradientIsTheComplexStep) {
  using C = std::complex<double>;
  const std::size_t rows = 2, cols = 5;
  Matrix mx(rows, cols, DType::f64), mw(1, cols, DType::f64), mb(1, cols, DType::f64),
      md(rows, cols, DType::f64);
  const auto x = mx.randomize(1).values(), w = mw.randomize(2).values(), b = mb.randomize(3).values(),
             dy = md.randomize(4).values();
  std::vector<double> gradients[3];
  for (const int i : {0, 1, 2}) gradients[i].assign(i == 0 ? x.size() : cols, 0);
  reference::layer_norm_grad(gradients[0], gradients[1], gradients[2], dy, x, w, kEps);
  std::vector<C> inputs[] = {{x.begin(), x.end()}, {w.begin(), w.end()}, {b.begin(), b.end()}};
  for (std::size_t n = 0; n < 3; ++n)
    for (std::size_t i = 0; i < inputs[n].size(); ++i) {
      inputs[n][i] += C(0, 1e-20);
      const auto y = reference::layer_norm(inputs[0], inputs[1], inputs[2], kEps);
      C sum = 0;
      for (std::size_t e = 0; e < y.size(); ++e) sum += dy[e] * y[e];
      inputs[n][i] = inputs[n][i].real();
      EXPECT_NEAR(sum.imag() / 1e-20, gradients[n][i], 1e-12) << n << " " << i;
    }
}

}  // namespace
}  // namespace ft::cpu
