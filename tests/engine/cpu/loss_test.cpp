// Cross-entropy, sums and optimizers of every target.
#include "tests/engine/cpu/leaf_fixture.h"

#include <cmath>
#include "tests/reference/leaf.h"

namespace ft::cpu {
namespace {

std::vector<double> row_of(const Matrix& m, std::int64_t r) {
  std::vector<double> row;
  for (std::int64_t c = 0; c < m.tensor.cols(); ++c) row.push_back(m.get(r, c));
  return row;
}

TEST(CrossEntropy, LossAndGradientAreTheReference) {
  each_trial({{1, 1}, {3, 5}, {5, 63}, {23, 1001}}, [](const Trial& s) {
    for (const float e : {0.0f, 0.1f}) {
      Matrix &logits = s.matrix(1, 8), &loss = s.vector(s.rows, DType::f32),
             &targets = s.indices(s.rows, s.cols);
      std::vector<double> want_loss, want_grad;
      for (std::int64_t r = 0; r < s.rows; ++r) {
        const auto target = std::size_t(targets.get(0, r));
        want_loss.push_back(reference::cross_entropy(row_of(logits, r), target, double{e}));
        for (const double g : reference::cross_entropy_grad(row_of(logits, r), target, double{e}))
          want_grad.push_back(g * 0.25);
      }
      const auto before = logits.values();
      s.ops.run(op::CrossEntropy{
          .loss = loss, .logits = logits, .targets = targets, .scale = 0.25f, .smoothing = e});
      EXPECT_LT(nmse(loss.values(), want_loss), 1e-13);
      EXPECT_EQ(logits.values(), before) << "no gradient was asked for";
      s.ops.run(op::CrossEntropy{.loss = loss,
                                 .logits = logits,
                                 .targets = targets,
                                 .scale = 0.25f,
                                 .smoothing = e,
                                 .gradient = true});
      EXPECT_LT(nmse(loss.values(), want_loss), 1e-13);
      EXPECT_LT(nmse(logits.values(), want_grad), s.tolerance());
    }
  });
}

// 50,000 probabilities of 1.5e-8 beside a large one: each is less than half a unit in the last place of 1,
// together they are 7e-4.
TEST(CrossEntropy, SmallProbabilitiesOfALargeVocabularyCount) {
  each_trial({{3, 49153}}, [](const Trial& s) {
    Matrix &logits = s.matrix(1, 8), &loss = s.vector(s.rows, DType::f32),
           &targets = s.indices(s.rows, s.cols);
    for (std::int64_t r = 0; r < s.rows; ++r)
      for (std::int64_t c = 0; c < s.cols; ++c) logits.set(r, c, c == 20'000 * r ? 0 : -18);
    s.ops.run(op::CrossEntropy{.loss = loss, .logits = logits, .targets = targets});
    for (std::int64_t r = 0; r < s.rows; ++r)
      EXPECT_NEAR(loss.get(0, r),
                  reference::cross_entropy(row_of(logits, r), std::size_t(targets.get(0, r)), 0.0), 1e-6);
  });
}

// With a cap, the gradient is taken with respect to the logits before the cap.
TEST(CrossEntropy, GradientGoesThroughTheCap) {
  each_trial({{1, 1}, {3, 5}, {5, 63}, {23, 1001}}, [](const Trial& s) {
    Matrix &logits = s.matrix(1, 8), &loss = s.vector(s.rows, DType::f32),
           &targets = s.indices(s.rows, s.cols);
    const double cap = 3;
    s.ops.run(op::SoftCap{.y = logits, .x = logits, .cap = 3});
    std::vector<double> want;
    for (std::int64_t r = 0; r < s.rows; ++r) {
      const auto capped = row_of(logits, r);
      const auto grad = reference::cross_entropy_grad(capped, std::size_t(targets.get(0, r)), 0.1);
      for (std::size_t i = 0; i < grad.size(); ++i)
        want.push_back(0.25 * grad[i] * (1 - capped[i] / cap * (capped[i] / cap)));
    }
    s.ops.run(op::CrossEntropy{.loss = loss,
                               .logits = logits,
                               .targets = targets,
                               .scale = 0.25f,
                               .smoothing = 0.1f,
                               .gradient = true,
                               .cap = 3});
    EXPECT_LT(nmse(logits.values(), want), std::max(1e-10, s.tolerance()));
  });
}

// Dynamic fine-tuning multiplies loss and gradient by the target's probability, which has no gradient of its
// own. The scale keeps gradients in the range of f16.
TEST(CrossEntropy, ADynamicLossIsTimesTheTargetsProbability) {
  each_trial({{1, 1}, {3, 5}, {5, 63}, {23, 1001}}, [](const Trial& s) {
    for (const float cap : {0.0f, 3.0f}) {
      Matrix &logits = s.matrix(1, 3), &loss = s.vector(s.rows, DType::f32),
             &targets = s.indices(s.rows, s.cols);
      if (cap > 0) s.ops.run(op::SoftCap{.y = logits, .x = logits, .cap = cap});
      std::vector<double> want_loss, want_grad;
      for (std::int64_t r = 0; r < s.rows; ++r) {
        const auto target = std::size_t(targets.get(0, r));
        const auto row = row_of(logits, r);
        const double nll = reference::cross_entropy(row, target, 0.0), p = std::exp(-nll);
        want_loss.push_back(p * nll);
        const auto grad = reference::cross_entropy_grad(row, target, 0.0);
        for (std::size_t i = 0; i < grad.size(); ++i)
          want_grad.push_back(4096 * p * grad[i] * (cap > 0 ? 1 - row[i] / cap * (row[i] / cap) : 1));
      }
      op::CrossEntropy op{
          .loss = loss, .logits = logits, .targets = targets, .scale = 4096, .dynamic = true, .cap = cap};
      s.ops.run(op);
      EXPECT_LT(nmse(loss.values(), want_loss), 1e-12);
      op.gradient = true;
      s.ops.run(op);
      EXPECT_LT(nmse(loss.values(), want_loss), 1e-12);
      EXPECT_LT(nmse(logits.values(), want_grad), std::max(1e-10, s.tolerance()));
    }
  });
}

TEST(CrossEntropy, ARowsGradientIsTimesItsWeight) {
  each_trial({{1, 1}, {5, 63}, {7, 1001}}, [](const Trial& s) {
    Matrix &logits = s.matrix(1, 8), &loss = s.vector(s.rows, DType::f32),
           &targets = s.indices(s.rows, s.cols), &weights = s.vector(s.rows, DType::f32, 3);
    std::vector<double> want;
    for (std::int64_t r = 0; r < s.rows; ++r)
      for (const double g :
           reference::cross_entropy_grad(row_of(logits, r), std::size_t(targets.get(0, r)), 0.0))
        want.push_back(g * 0.25 * weights.get(0, r));
    s.ops.run(op::CrossEntropy{.loss = loss,
                               .logits = logits,
                               .targets = targets,
                               .scale = 0.25f,
                               .gradient = true,
                               .weights = weights});
    EXPECT_LT(nmse(logits.values(), want), s.tolerance());
  });
}

// Losses and gradients of column ranges equal the results for complete rows, once the sums of all columns are
// known.
TEST(CrossEntropy, PartsOfRowsAddUpToTheRows) {
  each_trial({{1, 2}, {3, 5}, {5, 63}, {7, 1001}}, [](const Trial& s) {
    Matrix &logits = s.matrix(1, 8), &loss = s.vector(s.rows, DType::f32),
           &got = s.vector(s.rows, DType::f32), &targets = s.indices(s.rows, s.cols),
           &sums = s.vector(3 * s.rows * 4, DType::f32);
    const Tensor all = logits.tensor, of_parts(sums.tensor.data, DType::f32, {3 * s.rows, 4});
    const std::int64_t ends[] = {0, s.cols / 2, s.cols / 2, s.cols};
    std::int64_t parts = 0;
    for (int i = 0; i < 3; ++i) {
      if (ends[i] == ends[i + 1]) continue;
      s.ops.run(op::LogitSums{.y = of_parts.slice(parts * s.rows, (parts + 1) * s.rows),
                              .logits = all.columns(ends[i], ends[i + 1]),
                              .targets = targets,
                              .first = ends[i]});
      ++parts;
    }
    const auto before = logits.values();
    const op::CrossEntropy whole{.loss = loss,
                                 .logits = logits,
                                 .targets = targets,
                                 .scale = 0.25f,
                                 .smoothing = 0.1f,
                                 .dynamic = s.rows == 5,
                                 .gradient = true,
                                 .cap = 9};
    s.ops.run(whole);
    const auto want = logits.values();
    logits.assign(before);
    for (int i = 0; i < 3; ++i) {
      if (ends[i] == ends[i + 1]) continue;
      op::CrossEntropy part = whole;
      part.loss = Tensor(got);
      part.logits = all.columns(ends[i], ends[i + 1]);
      part.sums = of_parts.slice(0, parts * s.rows);
      part.first = ends[i];
      part.classes = s.cols;
      s.ops.run(part);
      EXPECT_LT(nmse(got.values(), loss.values()), 1e-13);
    }
    EXPECT_LT(nmse(logits.values(), want), std::max(1e-12, s.tolerance()));
  });
}

TEST(LogitStatistics, AreTheReference) {
  each_trial({{1, 1}, {3, 5}, {5, 63}, {7, 1001}}, [](const Trial& s) {
    Matrix &logits = s.matrix(1, 8), &y = s.vector(s.rows * 4, DType::f32),
           &targets = s.indices(s.rows, s.cols);
    s.ops.run(op::LogitStatistics{
        .y = Tensor(y.tensor.data, DType::f32, {s.rows, 4}), .logits = logits, .targets = targets});
    for (std::int64_t r = 0; r < s.rows; ++r) {
      const std::vector<double> x = row_of(logits, r);
      const double top = *std::max_element(x.begin(), x.end());
      double total = 0, sum = 0, squares = 0, entropy = 0;
      for (const double v : x) {
        total += std::exp(v - top);
        sum += v;
      }
      for (const double v : x) {
        const double p = std::exp(v - top) / total;
        squares += p * p;
        entropy -= p > 0 ? p * std::log(p) : 0;
      }
      const auto best = std::max_element(x.begin(), x.end()) - x.begin();  // the first of equal ones
      const double want[] = {entropy, sum / double(x.size()), double(best == std::int64_t(targets.get(0, r))),
                             std::log(squares)};
      for (int i = 0; i < 4; ++i) EXPECT_NEAR(y.get(0, 4 * r + i), want[i], 3e-5) << i;
    }
  });
}

// Computes op::Divergence of one row in f64.
double divergence(const std::vector<double>& x, const std::vector<double>& t, std::size_t target, double beta,
                  double temperature, double weight, double example) {
  const auto softmax = [](const std::vector<double>& v, double by) {
    const double top = *std::max_element(v.begin(), v.end());
    std::vector<double> p;
    double total = 0;
    for (const double a : v) total += p.emplace_back(std::exp((a - top) / by));
    for (double& a : p) a /= total;
    return p;
  };
  const std::vector<double> p = softmax(x, temperature), q = softmax(t, temperature);
  const auto kl = [](const std::vector<double>& a, const std::vector<double>& b) {
    double sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * (std::log(a[i]) - std::log(b[i]));
    return sum;
  };
  std::vector<double> m;
  for (std::size_t i = 0; i < p.size(); ++i) m.push_back((1 - beta) * p[i] + beta * q[i]);
  const double d = beta == 0 ? kl(q, p) : beta == 1 ? kl(p, q) : beta * kl(q, m) + (1 - beta) * kl(p, m);
  return weight * d - example * std::log(softmax(x, 1)[target]);
}

TEST(Divergence, LossAndGradientAreTheReference) {
  each_trial({{1, 1}, {3, 5}, {5, 63}, {2, 300}}, [](const Trial& s) {
    for (const float beta : {0.0f, 0.3f, 1.0f})
      for (const float example : {0.0f, 0.4f}) {
        Matrix &logits = s.matrix(1, 4), &teacher = s.matrix(2, 4), &loss = s.vector(s.rows, DType::f32),
               &targets = s.indices(s.rows, s.cols);
        std::vector<double> want_loss, want_grad;
        for (std::int64_t r = 0; r < s.rows; ++r) {
          std::vector<double> x = row_of(logits, r);
          const auto value = [&] {
            return divergence(x, row_of(teacher, r), std::size_t(targets.get(0, r)), double{beta}, 1.5, 0.7,
                              double{example});
          };
          want_loss.push_back(value());
          for (double& at : x) {
            constexpr double kStep = 1e-4;
            const double kept = at;
            at = kept + kStep;
            const double above = value();
            at = kept - kStep;
            want_grad.push_back(0.25 * (above - value()) / (2 * kStep));
            at = kept;
          }
        }
        op::Divergence d{.loss = loss, .logits = logits, .teacher = teacher, .targets = targets};
        d.beta = beta;
        d.temperature = 1.5f;
        d.divergence = 0.7f;
        d.cross_entropy = example;
        d.scale = 0.25f;
        const auto before = logits.values();
        s.ops.run(d);
        EXPECT_EQ(logits.values(), before) << "no gradient was asked for";
        for (std::int64_t r = 0; r < s.rows; ++r)
          EXPECT_NEAR(loss.get(0, r), want_loss[std::size_t(r)], 1e-5) << "beta " << beta;
        d.gradient = true;
        s.ops.run(d);
        const std::vector<double> got = logits.values();
        for (std::size_t i = 0; i < got.size(); ++i)
          EXPECT_NEAR(got[i], want_grad[i], 1e-6 + std::sqrt(s.tolerance()) * std::abs(want_grad[i]))
              << "beta " << beta;
      }
  });
}

// Model and teacher are both sure, but of different tokens: each one's probability of the other's token
// underflows.
TEST(Divergence, StaysFiniteWhereProbabilitiesVanish) {
  for (const NamedKernels& named : all_kernels()) {
    CpuOps ops(1, named.kernels);
    for (const float beta : {0.0f, 0.5f, 1.0f}) {
      Matrix logits(1, 9, DType::f32), teacher(1, 9, DType::f32), loss(1, 1, DType::f32),
          targets(1, 1, DType::i32);
      for (std::int64_t i = 0; i < 9; ++i) {
        logits.set(0, i, i == 0 ? 300 : 0);
        teacher.set(0, i, i == 1 ? 300 : -300);
      }
      targets.set(0, 0, 0);
      op::Divergence d{.loss = loss, .logits = logits, .teacher = teacher, .targets = targets};
      d.beta = beta;
      d.gradient = true;
      ops.run(d);
      EXPECT_TRUE(std::isfinite(loss.get(0, 0))) << named.name << " beta " << beta;
      for (std::int64_t i = 0; i < 9; ++i) EXPECT_TRUE(std::isfinite(logits.get(0, i))) << beta;
    }
  }
}

TEST(CrossEntropy, LargeLogitsAndNaN) {
  for (const NamedKernels& named : all_kernels()) {
    CpuOps ops(1, named.kernels);
    Matrix logits(3, 19, DType::f32), loss(1, 3, DType::f32), targets(1, 3, DType::i32);
    ops.run(op::Fill{logits, 1e4f});
    logits.set(1, 18, 2e4);
    logits.set(2, 3, NAN);
    targets.assign({4, 18, 0});
    ops.run(op::CrossEntropy{.loss = loss, .logits = logits, .targets = targets});
    EXPECT_NEAR(loss.get(0, 0), std::log(19.0), 1e-6) << named.name;
    EXPECT_EQ(loss.get(0, 1), 0) << named.name;
    EXPECT_TRUE(std::isnan(loss.get(0, 2))) << named.name;
  }
}

TEST(CrossEntropy, ATargetBeyondTheClassesIsAnError) {
  CpuOps ops(1);
  Matrix logits(1, 4, DType::f32), loss(1, 1, DType::f32), targets(1, 1, DType::i32);
  for (const double wrong : {-100.0, 4.0}) {
    targets.assign({wrong});
    EXPECT_THROW(ops.run(op::CrossEntropy{.loss = loss, .logits = logits, .targets = targets}),
                 InternalError);
  }
}

TEST(CrossEntropy, ReferenceGradientIsTheComplexStep) {
  using C = std::complex<double>;
  Matrix m(1, 9, DType::f64);
  const auto logits = m.randomize(1, 5).values();
  for (const double e : {0.0, 0.2}) {
    const auto grad = reference::cross_entropy_grad(logits, 4, e);
    for (std::size_t i = 0; i < logits.size(); ++i) {
      std::vector<C> moved(logits.begin(), logits.end());
      moved[i] += C(0, 1e-20);
      EXPECT_NEAR(reference::cross_entropy(moved, 4, e).imag() / 1e-20, grad[i], 1e-13);
    }
  }
}

TEST(Sums, AreF64AndAdd) {
  for (const NamedKernels& named : all_kernels())
    for (const std::int64_t n : {1, 5, 4097, 70001, 2200003}) {
      Matrix x(1, n, DType::f32);
      x.randomize(5);
      double sum = 0, squares = 0;
      for (const double v : x.values()) {
        sum += v;
        squares += v * v;
      }
      std::vector<double> got;
      for (const int threads : {1, 2, 3}) {
        CpuOps ops(threads, named.kernels);
        Matrix y(1, 2, DType::f64);
        y.assign({7, 9});
        ops.run(op::Sum{y.tensor.columns(0, 1), x});
        ops.run(op::SumSquares{y.tensor.columns(1, 2), x});
        EXPECT_NEAR(y.get(0, 0), 7 + sum, 1e-9) << named.name << " " << n;
        EXPECT_NEAR(y.get(0, 1), 9 + squares, 1e-12 * squares + 1e-12) << named.name << " " << n;
        if (threads == 1) got = y.values();
        EXPECT_EQ(y.values(), got) << "depends on the number of threads";
      }
    }
}

void expect_adam(bool decoupled) {
  each_trial({{1, 7}, {3, 5000}}, [&](const Trial& s) {
    if (s.type != DType::f32 || s.pad != 0) return;
    const std::int64_t n = s.rows * s.cols;
    Matrix &p = s.vector(n, DType::f32, 1), &grad = s.vector(n, DType::f32, 2);
    Matrix &m = s.vector(n, DType::f32), &v = s.vector(n, DType::f32);
    s.ops.run(op::Fill{m, 0});
    s.ops.run(op::Fill{v, 0});
    auto wp = p.values(), wm = m.values(), wv = v.values();
    for (int step = 1; step <= 6; ++step) {
      grad.randomize(std::uint64_t(step), step % 2 ? 1e-3 : 10);
      for (std::size_t i = 0; i < wp.size(); ++i) {
        const double g = 0.5 * grad.get(0, std::int64_t(i)) + (decoupled ? 0 : 0.1 * wp[i]);
        wm[i] = 0.9 * wm[i] + (1 - 0.9) * g;
        wv[i] = 0.999 * wv[i] + (1 - 0.999) * g * g;
        const double mean = wm[i] / (1 - std::pow(0.9, step)), square = wv[i] / (1 - std::pow(0.999, step));
        if (decoupled) wp[i] -= 1e-2 * 0.1 * wp[i];
        wp[i] -= 1e-2 * mean / (std::sqrt(square) + 1e-8);
      }
      s.ops.run(op::AdamW{.master = p,
                          .m = m,
                          .v = v,
                          .grad = grad,
                          .lr = 1e-2,
                          .beta1 = 0.9,
                          .beta2 = 0.999,
                          .eps = 1e-8,
                          .decay = 0.1,
                          .grad_scale = 0.5f,
                          .step = step,
                          .decoupled = decoupled});
    }
    EXPECT_LT(nmse(p.values(), wp), 1e-13);
    EXPECT_LT(nmse(m.values(), wm), 1e-13);
    EXPECT_LT(nmse(v.values(), wv), 1e-13);
  });
}

TEST(AdamW, FollowsTheDoublePrecisionUpdate) { expect_adam(true); }

// Weight decay as in torch.optim.Adam: added to the gradient.
TEST(AdamW, WithDecayInTheGradientToo) { expect_adam(false); }

// If the update is exactly zero, as for a zero gradient, only the weight decay remains.
TEST(Lion, FollowsTheDoublePrecisionUpdate) {
  each_trial({{1, 7}, {3, 5000}}, [](const Trial& s) {
    if (s.type != DType::f32 || s.pad != 0) return;
    const std::int64_t n = s.rows * s.cols;
    Matrix &p = s.vector(n, DType::f32, 1), &grad = s.vector(n, DType::f32, 2), &m = s.vector(n, DType::f32);
    s.ops.run(op::Fill{m, 0});
    auto wp = p.values(), wm = m.values();
    for (int step = 1; step <= 6; ++step) {
      grad.randomize(std::uint64_t(step), step % 2 ? 1e-3 : 10);
      for (std::int64_t i = 0; i < n; i += 5) grad.set(0, i, 0);
      for (std::size_t i = 0; i < wp.size(); ++i) {
        const double g = 0.5 * grad.get(0, std::int64_t(i)), c = 0.9 * wm[i] + (1 - 0.9) * g;
        wp[i] -= 1e-2 * 0.1 * wp[i];
        wp[i] -= 1e-2 * ((c > 0) - (c < 0));
        wm[i] = 0.99 * wm[i] + (1 - 0.99) * g;
      }
      s.ops.run(op::Lion{.master = p,
                         .m = m,
                         .grad = grad,
                         .lr = 1e-2,
                         .beta1 = 0.9,
                         .beta2 = 0.99,
                         .decay = 0.1,
                         .grad_scale = 0.5f});
    }
    EXPECT_LT(nmse(p.values(), wp), 1e-13);
    EXPECT_LT(nmse(m.values(), wm), 1e-13);
  });
}

TEST(Sgd, DecaysAndScales) {
  each_trial({{1, 7}, {3, 7000}}, [](const Trial& s) {
    if (s.type != DType::f32 || s.pad != 0) return;
    Matrix &p = s.vector(s.rows * s.cols, DType::f32, 1), &grad = s.vector(s.rows * s.cols, DType::f32, 2);
    auto want = p.values();
    for (std::size_t i = 0; i < want.size(); ++i)
      want[i] -= 0.1 * (0.25 * grad.get(0, std::int64_t(i)) + 0.01 * want[i]);
    s.ops.run(op::Sgd{.master = p, .grad = grad, .lr = 0.1f, .decay = 0.01f, .grad_scale = 0.25f});
    EXPECT_LT(nmse(p.values(), want), 1e-13);
  });
}

}  // namespace
}  // namespace ft::cpu
