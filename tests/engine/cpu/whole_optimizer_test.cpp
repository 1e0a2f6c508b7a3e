// Parts of the steps of Adafactor and Muon against the same in f64.
#include <cmath>

#include "tests/engine/cpu/leaf_fixture.h"

namespace ft::cpu {
namespace {

constexpr std::initializer_list<Size> kMatrices{{1, 7}, {40, 33}, {3, 9000}};

template <class Test>
void each_matrix(Test run) {
  each_trial(kMatrices, [&](const Trial& s) {
    if (s.type == DType::f32 && s.pad == 0) run(s);
  });
}

TEST(Factored, MeansAndUpdateFollowTheDoublePrecisionFormulas) {
  each_matrix([](const Trial& s) {
    Matrix &grad = s.matrix(1), &row = s.vector(s.rows, DType::f32, 2),
           &col = s.vector(s.cols, DType::f32, 3), &sum = s.vector(1, DType::f64);
    for (Matrix* m : {&row, &col})
      for (std::int64_t i = 0; i < m->tensor.numel(); ++i) m->set(0, i, std::abs(m->get(0, i)));
    auto g = grad.values(), want_row = row.values(), want_col = col.values();
    for (double& x : want_row) x *= 0.9;
    for (double& x : want_col) x *= 0.9;
    const auto rows = static_cast<std::size_t>(s.rows), cols = static_cast<std::size_t>(s.cols);
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t c = 0; c < cols; ++c) {
        const double q = std::pow(0.5 * g[r * cols + c], 2) + 1e-3;
        want_row[r] += (1 - 0.9) * q / double(cols);
        want_col[c] += (1 - 0.9) * q / double(rows);
      }
    s.ops.run(op::FactoredMeans{
        .row = row, .col = col, .grad = grad, .beta2 = 0.9, .eps = 1e-3, .grad_scale = 0.5f});
    EXPECT_LT(nmse(row.values(), want_row), 1e-12);
    EXPECT_LT(nmse(col.values(), want_col), 1e-12);
    double all = 0;
    for (const double x : want_row) all += x;
    sum.set(0, 0, all);
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t c = 0; c < cols; ++c)
        g[r * cols + c] *= 0.5 / std::sqrt(want_row[r] / (all / double(rows))) / std::sqrt(want_col[c]);
    s.ops.run(op::FactoredUpdate{.grad = grad, .row = row, .col = col, .row_sum = sum, .grad_scale = 0.5f});
    EXPECT_LT(nmse(grad.values(), g), 1e-12);
  });
}

TEST(RootUpdate, FollowsTheDoublePrecisionFormula) {
  each_matrix([](const Trial& s) {
    Matrix &grad = s.matrix(1), &v = s.matrix(2);
    for (std::int64_t r = 0; r < s.rows; ++r)
      for (std::int64_t c = 0; c < s.cols; ++c) v.set(r, c, std::abs(v.get(r, c)));
    auto want = grad.values(), square = v.values();
    for (std::size_t i = 0; i < want.size(); ++i) {
      square[i] = 0.9 * square[i] + 0.1 * (std::pow(0.5 * want[i], 2) + 1e-3);
      want[i] *= 0.5 / std::sqrt(square[i]);
    }
    s.ops.run(op::RootUpdate{.v = v, .grad = grad, .beta2 = 0.9, .eps = 1e-3, .grad_scale = 0.5f});
    EXPECT_LT(nmse(v.values(), square), 1e-12);
    EXPECT_LT(nmse(grad.values(), want), 1e-12);
  });
}

TEST(MuonMomentum, FollowsTheDoublePrecisionFormula) {
  for (const bool nesterov : {false, true})
    each_matrix([=](const Trial& s) {
      Matrix &grad = s.matrix(1), &m = s.matrix(2);
      auto update = grad.values(), mean = m.values();
      for (std::size_t i = 0; i < update.size(); ++i) {
        const double g = 0.5 * update[i];
        mean[i] = 0.9 * mean[i] + 0.1 * g;
        update[i] = nesterov ? 0.9 * mean[i] + 0.1 * g : mean[i];
      }
      s.ops.run(
          op::MuonMomentum{.m = m, .grad = grad, .momentum = 0.9, .nesterov = nesterov, .grad_scale = 0.5f});
      EXPECT_LT(nmse(m.values(), mean), 1e-12);
      EXPECT_LT(nmse(grad.values(), update), 1e-12);
    });
}

TEST(Scale, MultipliesAndDividesByANorm) {
  each_matrix([](const Trial& s) {
    Matrix &x = s.matrix(1), &y = s.matrix(s.rows, s.cols, DType::f32),
           &narrow = s.matrix(s.rows, s.cols, DType::bf16), &squares = s.vector(1, DType::f64);
    for (const double norm : {0.0, 2.5}) {
      squares.set(0, 0, norm * norm);
      auto want = x.values();
      for (double& w : want) w *= 3 / std::max(norm, 0.5);
      s.ops.run(op::Scale{.y = y, .x = x, .by = 3, .squares = squares, .least = 0.5});
      s.ops.run(op::Scale{.y = narrow, .x = x, .by = 3, .squares = squares, .least = 0.5});
      EXPECT_LT(nmse(y.values(), want), 1e-13);
      EXPECT_LT(nmse(narrow.values(), want), Trial::tolerance(DType::bf16));
    }
    auto want = narrow.values();
    for (double& w : want) w *= -2;
    s.ops.run(op::Scale{.y = y, .x = narrow, .by = -2});
    EXPECT_EQ(y.values(), want);
  });
}

TEST(Descend, ShortensUpdatesAboveTheThreshold) {
  for (const DType type : {DType::f32, DType::bf16})
    for (const double squares : {-1.0, 4.0, 400.0})  // no sum; a root mean square of 0.2, and of 2
      each_matrix([=](const Trial& s) {
        Matrix &p = s.matrix(1), &u = s.matrix(s.rows, s.cols, type).randomize(2),
               &sum = s.vector(1, DType::f64);
        sum.set(0, 0, squares);
        auto want = p.values();
        const auto update = u.values();
        for (std::size_t i = 0; i < want.size(); ++i)
          want[i] = 0.9 * want[i] - 0.1 * update[i] / (squares == 400 ? 4 : 1);
        s.ops.run(op::Descend{.master = p,
                              .update = u,
                              .keep = 0.9,
                              .rate = 0.1,
                              .squares = squares < 0 ? Tensor{} : sum.tensor,
                              .count = 100,
                              .threshold = 0.5});
        EXPECT_LT(nmse(p.values(), want), 1e-12);
      });
}

}  // namespace
}  // namespace ft::cpu
