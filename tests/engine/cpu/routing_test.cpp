// Routes, sorted rows and their sums of every target.
#include "tests/engine/cpu/leaf_fixture.h"

#include <algorithm>
#include <cmath>

#include "tests/reference/routing.h"

namespace ft::cpu {
namespace {

std::vector<double> row_of(const Matrix& m, std::int64_t r) {
  std::vector<double> row;
  for (std::int64_t c = 0; c < m.tensor.cols(); ++c) row.push_back(m.get(r, c));
  return row;
}

const std::vector<Size> kRoutes{{1, 1}, {3, 5}, {5, 63}, {79, 17}};

// Rules for this number of experts; with groups if it is divisible by 3.
std::vector<RouteRule> rules_for(std::int64_t experts) {
  std::vector<RouteRule> rules{
      {}, {.normalised = true}, {.sigmoid = true}, {.sigmoid = true, .normalised = true, .scale = 2.5f}};
  if (experts % 3 != 0) return rules;
  rules.push_back({.scale = 0.5f, .groups = 3, .kept = 1});
  rules.push_back({.sigmoid = true, .normalised = true, .scale = 2, .groups = 3, .kept = 2, .best = 2});
  return rules;
}

struct Routes {
  Routes(const Trial& s, const RouteRule& rule, bool corrected, std::int64_t most = 3)
      : k(std::min(most, s.cols)),
        logits(s.matrix(1, 3)),
        p(s.matrix(s.rows, s.cols, DType::f32)),
        w(s.matrix(s.rows, k, DType::f32)),
        ids(s.matrix(s.rows, k, DType::i32)),
        bias(s.vector(s.cols, DType::f32, 7)) {
    if (s.pad == 0)
      s.ops.run(op::Route{.weights = w,
                          .ids = ids,
                          .p = p,
                          .logits = logits,
                          .bias = corrected ? bias.tensor.view({s.cols}) : Tensor{},
                          .rule = rule});
  }
  std::int64_t k;
  Matrix &logits, &p, &w, &ids, &bias;
};

TEST(Route, IsTheReferenceWithItsGradient) {
  each_trial(kRoutes, [&](const Trial& s) {
    if (s.pad != 0) return;  // i32 and f32 tensors must be dense
    for (const RouteRule& rule : rules_for(s.cols)) {
      const bool corrected = rule.sigmoid;
      const Routes r(s, rule, corrected);
      Matrix &dw = s.matrix(s.rows, r.k, DType::f32).randomize(2), &slope = s.vector(s.cols, DType::f32, 3);
      Matrix& dlogits = s.matrix(s.rows, s.cols, s.type);
      s.ops.run(op::RouteGrad{
          .dlogits = dlogits, .dweights = dw, .ids = r.ids, .p = r.p, .slope = slope, .rule = rule});
      const auto bias = corrected ? r.bias.values() : std::vector<double>{};
      std::vector<double> want_w, want_grad;
      for (std::int64_t t = 0; t < s.rows; ++t) {
        const auto logits = row_of(r.logits, t);
        const auto scores = reference::scores_of(logits, rule);
        const auto ids = reference::chosen(scores, bias, std::size_t(r.k), rule);
        for (std::int64_t j = 0; j < r.k; ++j) EXPECT_EQ(r.ids.get(t, j), double(ids[std::size_t(j)]));
        for (const double w : reference::weights_of(scores, ids, rule)) want_w.push_back(w);
        for (std::size_t i = 0; i < logits.size(); ++i) {
          std::vector<std::complex<double>> moved(logits.begin(), logits.end());
          moved[i] += std::complex<double>(0, 1e-20);
          const auto p = reference::scores_of(moved, rule);
          const auto w = reference::weights_of(p, ids, rule);
          std::complex<double> sum = 0;
          for (std::size_t j = 0; j < w.size(); ++j) sum += dw.get(t, std::int64_t(j)) * w[j];
          for (std::size_t e = 0; e < p.size(); ++e) sum += slope.get(0, std::int64_t(e)) * p[e];
          want_grad.push_back(sum.imag() / 1e-20);
        }
      }
      EXPECT_LT(nmse(r.w.values(), want_w), 1e-12);
      if (s.cols > 1) {
        EXPECT_LT(nmse(dlogits.values(), want_grad), std::max(1e-11, s.tolerance()));
      }
    }
  });
}

// Expects exactly 0, because Adam would divide a rounded gradient by its own size.
TEST(Route, TheWeightOfASingleExpertHasNoGradient) {
  each_trial({{5, 7}, {31, 17}}, [](const Trial& s) {
    if (s.pad != 0) return;
    for (const bool sigmoid : {false, true}) {
      const RouteRule rule{.sigmoid = sigmoid, .normalised = true, .scale = 1.5f};
      const Routes r(s, rule, false, 1);
      Matrix& dw = s.matrix(s.rows, 1, DType::f32).randomize(2);
      Matrix& dlogits = s.matrix(s.rows, s.cols, s.type);
      s.ops.run(op::RouteGrad{.dlogits = dlogits, .dweights = dw, .ids = r.ids, .p = r.p, .rule = rule});
      for (const double g : dlogits.values()) ASSERT_EQ(g, 0);
    }
  });
}

// Exactly 0, too: the rounding of a sum that is 0 would train the rows of experts that no token chose.
TEST(Route, OtherExpertsHaveNoGradientWithNormalisation) {
  each_trial({{5, 7}, {31, 17}}, [](const Trial& s) {
    if (s.pad != 0) return;
    for (const bool sigmoid : {false, true}) {
      const RouteRule rule{.sigmoid = sigmoid, .normalised = true, .scale = 1.5f};
      const Routes r(s, rule, false);
      Matrix& dw = s.matrix(s.rows, r.k, DType::f32).randomize(2);
      Matrix& dlogits = s.matrix(s.rows, s.cols, s.type);
      s.ops.run(op::RouteGrad{.dlogits = dlogits, .dweights = dw, .ids = r.ids, .p = r.p, .rule = rule});
      for (std::int64_t t = 0; t < s.rows; ++t) {
        const auto chosen = row_of(r.ids, t);
        for (std::int64_t e = 0; e < s.cols; ++e) {
          const bool own = std::ranges::find(chosen, double(e)) != chosen.end();
          ASSERT_TRUE(own || dlogits.get(t, e) == 0) << t << " " << e;
        }
      }
    }
  });
}

// Groups are chosen first: even the best expert is not chosen in a group that is left out. A bias changes the
// choice but no weight.
TEST(Route, GroupsAndBias) {
  for (const NamedKernels& named : all_kernels()) {
    CpuOps ops(1, named.kernels);
    Matrix logits(1, 6, DType::f32), p(1, 6, DType::f32), w(1, 2, DType::f32), ids(1, 2, DType::i32),
        bias(1, 6, DType::f32);
    logits.assign({5, -9, 1, 1, -2, 2});
    bias.assign({0, 0, 0, 0, 3, 0});
    const RouteRule rule{.sigmoid = true, .groups = 3, .kept = 1, .best = 2};
    ops.run(op::Route{.weights = w, .ids = ids, .p = p, .logits = logits, .rule = rule});
    EXPECT_EQ(ids.values(), (std::vector<double>{2, 3})) << named.name;
    ops.run(op::Route{.weights = w, .ids = ids, .p = p, .logits = logits, .bias = bias, .rule = rule});
    EXPECT_EQ(ids.values(), (std::vector<double>{4, 5})) << named.name;
    EXPECT_NEAR(w.get(0, 0), 1 / (1 + std::exp(2)), 1e-6);
    EXPECT_THROW(ops.run(op::Route{
                     .weights = w, .ids = ids, .p = p, .logits = logits, .rule = {.groups = 6, .kept = 1}}),
                 InternalError);
  }
}

// Among equal logits the first are chosen; with NaN the chosen experts are still valid and different.
TEST(Route, TiesAndNaN) {
  for (const NamedKernels& named : all_kernels()) {
    CpuOps ops(1, named.kernels);
    Matrix logits(2, 5, DType::f32), p(2, 5, DType::f32), w(2, 2, DType::f32), ids(2, 2, DType::i32);
    logits.assign({1, 2, 2, 2, 0, NAN, 1, 1, 1, 1});
    ops.run(op::Route{.weights = w, .ids = ids, .p = p, .logits = logits});
    EXPECT_EQ(ids.values(), (std::vector<double>{1, 2, 0, 1})) << named.name;
  }
}

TEST(GroupRows, SortsByExpertAndKeepsTheOrder) {
  for (const NamedKernels& named : all_kernels()) {
    CpuOps ops(2, named.kernels);
    Matrix ids(4, 2, DType::i32), order(1, 8, DType::i32), tokens(1, 8, DType::i32), places(4, 2, DType::i32),
        starts(1, 5, DType::i32);
    ids.assign({3, 0, 0, 1, 3, 1, 0, 3});
    ops.run(op::GroupRows{.order = order, .tokens = tokens, .places = places, .starts = starts, .ids = ids});
    EXPECT_EQ(starts.values(), (std::vector<double>{0, 3, 5, 5, 8})) << named.name;
    EXPECT_EQ(order.values(), (std::vector<double>{1, 2, 6, 3, 5, 0, 4, 7}));
    EXPECT_EQ(tokens.values(), (std::vector<double>{0, 1, 3, 1, 2, 0, 2, 3}));
    EXPECT_EQ(places.values(), (std::vector<double>{5, 0, 1, 3, 6, 4, 2, 7}));
    ids.assign({3, 0, 0, 1, 3, 1, 0, 4});
    EXPECT_THROW(ops.run(op::GroupRows{
                     .order = order, .tokens = tokens, .places = places, .starts = starts, .ids = ids}),
                 InternalError);
  }
}

TEST(RouterBalance, IsTheReferenceWithItsSlope) {
  constexpr std::size_t kExperts = 6, kChoices = 2, kTokens = 9, kLayers = 2;
  for (const NamedKernels& named : all_kernels()) {
    CpuOps ops(1, named.kernels);
    Matrix starts(kLayers, kExperts + 1, DType::i32), sums(kLayers, kExperts, DType::f32);
    Matrix loss(1, 1, DType::f64), slope(1, kExperts, DType::f32);
    std::vector<reference::Values<double>> all;
    for (std::size_t l = 0; l < kLayers; ++l) {
      std::vector<double> count(kExperts + 1), sum(kExperts);
      for (std::size_t t = 0; t < kTokens; ++t) {
        Matrix logits(1, kExperts, DType::f64);
        all.push_back(reference::softmax(logits.randomize(1 + l * kTokens + t).values()));
        for (const std::size_t e : reference::largest(all.back(), kChoices)) ++count[e + 1];
        for (std::size_t e = 0; e < kExperts; ++e) sum[e] += all.back()[e];
      }
      for (std::size_t e = 0; e < kExperts; ++e) {
        count[e + 1] += count[e];
        sums.set(std::int64_t(l), std::int64_t(e), sum[e]);
      }
      for (std::size_t e = 0; e <= kExperts; ++e) starts.set(std::int64_t(l), std::int64_t(e), count[e]);
    }
    loss.assign({7});
    ops.run(op::RouterBalance{.loss = loss,
                              .slope = slope,
                              .starts = starts,
                              .sums = sums,
                              .choices = kChoices,
                              .weight = 0.5f,
                              .scale = 4});
    EXPECT_NEAR(loss.get(0, 0), 7 + 0.5 * reference::balance(all, kChoices), 1e-6) << named.name;
    std::vector<reference::Values<std::complex<double>>> moved;
    for (const auto& p : all) moved.emplace_back(p.begin(), p.end());
    for (std::size_t e = 0; e < kExperts; ++e) {
      moved[3][e] += std::complex<double>(0, 1e-20);
      EXPECT_NEAR(slope.get(0, std::int64_t(e)), 2 * reference::balance(moved, kChoices).imag() / 1e-20,
                  1e-6);
      moved[3][e] = moved[3][e].real();
    }
  }
}

TEST(ScaleRows, AndItsGradient) {
  for (const bool sigmoid : {false, true})
    each_trial([&](const Trial& s) {
      Matrix &x = s.matrix(1), &dy = s.matrix(2), &y = s.matrix(s.rows, s.cols, s.type);
      Matrix &w = s.vector(s.rows, DType::f32, 3), &dw = s.vector(s.rows, DType::f32);
      s.ops.run(op::ScaleRows{.y = y, .x = x, .w = w, .sigmoid = sigmoid});
      std::vector<double> want, want_dx, want_dw;
      for (std::int64_t r = 0; r < s.rows; ++r) {
        const double v = w.get(0, r), factor = sigmoid ? 1 / (1 + std::exp(-v)) : v;
        double dot = 0;
        for (std::int64_t i = 0; i < s.cols; ++i) {
          want.push_back(factor * x.get(r, i));
          want_dx.push_back(factor * dy.get(r, i));
          dot += dy.get(r, i) * x.get(r, i);
        }
        want_dw.push_back(sigmoid ? dot * factor * (1 - factor) : dot);
      }
      EXPECT_LT(nmse(y.values(), want), s.tolerance());
      s.ops.run(op::ScaleRowsGrad{.dx = dy, .dw = dw, .dy = dy, .x = x, .w = w, .sigmoid = sigmoid});
      EXPECT_LT(nmse(dy.values(), want_dx), s.tolerance());
      EXPECT_LT(nmse(dw.values(), want_dw), 1e-11);
    });
}

TEST(GatherSum, AddsRowsInTheirOrder) {
  each_trial([](const Trial& s) {
    constexpr std::int64_t kEach = 3;
    Matrix &x = s.matrix(1), &c = s.matrix(2), &y = s.matrix(s.rows, s.cols, s.type);
    Matrix& rows = s.indices(s.rows * kEach, s.rows);
    for (const bool added : {false, true}) {
      s.ops.run(op::GatherSum{
          .y = y, .x = x, .rows = rows.tensor.view({s.rows, kEach}), .c = added ? c.tensor : Tensor{}});
      std::vector<double> want;
      for (std::int64_t r = 0; r < s.rows; ++r)
        for (std::int64_t i = 0; i < s.cols; ++i) {
          double sum = added ? c.get(r, i) : 0;
          for (std::int64_t j = 0; j < kEach; ++j)
            sum += x.get(static_cast<std::int64_t>(rows.get(0, r * kEach + j)), i);
          want.push_back(sum);
        }
      EXPECT_LT(nmse(y.values(), want), s.tolerance());
    }
  });
}

TEST(RepeatRows, CopiesEachRowAndItsGradientAddsThemUp) {
  each_trial([](const Trial& s) {
    constexpr std::int64_t kTimes = 3;
    Matrix &x = s.matrix(1), &y = s.matrix(s.rows * kTimes, s.cols, s.type);
    s.ops.run(op::RepeatRows{.y = y, .x = x});
    for (std::int64_t r = 0; r < s.rows * kTimes; ++r)
      for (std::int64_t i = 0; i < s.cols; ++i) ASSERT_EQ(y.get(r, i), x.get(r / kTimes, i));
    y.randomize(2);
    s.ops.run(op::RepeatRowsGrad{.dx = x, .dy = y});
    std::vector<double> want;
    for (std::int64_t r = 0; r < s.rows; ++r)
      for (std::int64_t i = 0; i < s.cols; ++i)
        want.push_back(y.get(3 * r, i) + y.get(3 * r + 1, i) + y.get(3 * r + 2, i));
    EXPECT_LT(nmse(x.values(), want), s.tolerance());
  });
}

TEST(Transpose, Turns) {
  each_trial([](const Trial& s) {
    Matrix &x = s.matrix(1), &y = s.matrix(s.cols, s.rows, s.type);
    s.ops.run(op::Transpose{.y = y, .x = x});
    for (std::int64_t r = 0; r < s.rows; ++r)
      for (std::int64_t i = 0; i < s.cols; ++i) EXPECT_EQ(y.get(i, r), x.get(r, i));
  });
}

}  // namespace
}  // namespace ft::cpu
