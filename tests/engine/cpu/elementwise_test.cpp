// fill, add, cast, copy, dropout and the gated activations of every target.
#include <cmath>
#include <limits>

#include "tests/engine/cpu/leaf_fixture.h"
#include "tests/reference/leaf.h"

namespace ft::cpu {
namespace {

// Returns v rounded to type t.
double stored(double v, DType t) {
  Matrix m(1, 1, t);
  m.set(0, 0, v);
  return m.get(0, 0);
}

TEST(Elementwise, FillSetsEveryElement) {
  each_trial([](const Trial& s) {
    Matrix& y = s.matrix(1);
    s.ops.run(op::Fill{y, 0.3f});
    for (const double v : y.values()) ASSERT_EQ(v, stored(0.3f, s.type));
  });
}

TEST(Elementwise, AddIsExactAndMayMixTypes) {
  each_trial([](const Trial& s) {
    for (const DType other : {DType::f32, DType::bf16, DType::f16}) {
      Matrix &y = s.matrix(1), &x = s.matrix(s.rows, s.cols, other).randomize(2);
      const auto before = y.values(), added = x.values();
      s.ops.run(op::Add{y, x});
      const auto after = y.values();
      for (std::size_t i = 0; i < after.size(); ++i)
        ASSERT_EQ(after[i], stored(static_cast<float>(before[i]) + static_cast<float>(added[i]), s.type));
    }
  });
}

TEST(Elementwise, ScaleMultiplies) {
  each_trial([](const Trial& s) {
    Matrix &x = s.matrix(1), &y = s.matrix(2);
    s.ops.run(op::Multiply{.y = y, .x = x, .factor = 0.3f});
    const auto in = x.values(), out = y.values();
    for (std::size_t i = 0; i < in.size(); ++i)
      ASSERT_EQ(out[i], stored(static_cast<float>(in[i]) * 0.3f, s.type));
    s.ops.run(op::Multiply{.y = x, .x = x, .factor = 0.3f});
    EXPECT_EQ(x.values(), out) << "in place";
  });
}

TEST(Elementwise, SoftCapIsTheHyperbolicTangent) {
  each_trial([](const Trial& s) {
    for (const double size : {0.01, 1.0, 40.0}) {  // magnitude of the values; the cap is 5
      Matrix &x = s.matrix(1), &y = s.matrix(2);
      x.randomize(3, size);
      s.ops.run(op::SoftCap{.y = y, .x = x, .cap = 5});
      const auto in = x.values(), out = y.values();
      for (std::size_t i = 0; i < in.size(); ++i) {
        const double want = 5 * std::tanh(in[i] / 5), unit = s.type == DType::f32 ? 8e-7 : s.tolerance();
        ASSERT_NEAR(out[i], want, (s.type == DType::f32 ? unit : std::sqrt(unit)) * std::abs(want) + 1e-30);
        ASSERT_LE(std::abs(out[i]), 5.000002);
      }
    }
    Matrix& x = s.matrix(1);
    x.set(0, 0, NAN);
    s.ops.run(op::SoftCap{.y = x, .x = x, .cap = 5});
    EXPECT_TRUE(std::isnan(x.get(0, 0)));
  });
}

TEST(Elementwise, CastRoundsToNearestEvenBetweenAllTypes) {
  const double inf = std::numeric_limits<double>::infinity();
  const std::vector<double> odd{0.0,        -0.0,  1.0 + 1.0 / 256, 1.0 + 3.0 / 256, 65504, 65519,
                                65520,      1e-8,  6.1e-5,          3e-41,           -inf,  inf,
                                1.0 + 1e-3, 3.3e38};
  each_trial([&](const Trial& s) {
    for (const DType from : {DType::f32, DType::bf16, DType::f16})
      for (const DType to : {DType::f32, DType::bf16, DType::f16}) {
        Matrix &x = s.matrix(s.rows, s.cols, from).randomize(3), &y = s.matrix(s.rows, s.cols, to);
        for (std::size_t i = 0; i < odd.size() && i < x.size(); ++i)
          x.set(std::int64_t(i) / s.cols, std::int64_t(i) % s.cols, odd[i]);
        s.ops.run(op::Cast{y, x});
        const auto in = x.values(), out = y.values();
        for (std::size_t i = 0; i < in.size(); ++i)
          ASSERT_EQ(out[i], stored(in[i], to)) << in[i] << " from " << name_of(from) << " to " << name_of(to);
        x.set(0, 0, NAN);
        s.ops.run(op::Cast{y, x});
        ASSERT_TRUE(std::isnan(y.get(0, 0)));
      }
  });
}

TEST(Elementwise, CopyTakesSpacedRows) {
  each_trial([](const Trial& s) {
    Matrix &x = s.matrix(4), &y = s.matrix(5), &dense = s.vector(s.rows * s.cols, s.type);
    s.ops.copy(y, x);
    EXPECT_EQ(y.values(), x.values());
    const Tensor flat = dense.tensor.view({s.rows, s.cols});
    s.ops.copy(flat, x);
    EXPECT_EQ(dense.values(), x.values());
  });
}

bool kept(Random random, std::uint64_t i, DropRule rule) { return rule.keeps(random.eight_at(i / 8), i % 8); }

TEST(Elementwise, DropoutFollowsItsRandomNumbers) {
  each_trial([](const Trial& s) {
    const float p = 0.3f;
    const DropRule rule(p);
    const Random random = Random{42}.with("lora_A");
    Matrix &x = s.matrix(6), &y = s.matrix(7);
    s.ops.run(op::Dropout{.y = y, .x = x, .p = p, .random = random});
    const auto in = x.values(), out = y.values();
    std::vector<double> want;
    for (std::size_t i = 0; i < in.size(); ++i)
      want.push_back(kept(random, i, rule) ? in[i] * rule.growth() : 0);
    EXPECT_LT(nmse(out, want), s.tolerance());
    for (std::size_t i = 0; i < in.size(); ++i) ASSERT_EQ(out[i] == 0, want[i] == 0);
    s.ops.run(op::Dropout{.y = x, .x = x, .p = p, .random = random});  // in place
    EXPECT_EQ(x.values(), out);
    Matrix& part = s.matrix(6);  // rows 37 and on
    s.ops.run(op::Dropout{.y = part, .x = part, .p = p, .random = random, .first_row = 37});
    const auto rest = part.values();
    for (std::size_t i = 0; i < in.size(); ++i) {
      const std::size_t number = i + 37 * static_cast<std::size_t>(s.cols);
      ASSERT_EQ(rest[i] == 0, in[i] == 0 || !kept(random, number, rule)) << i;
    }
  });
}

TEST(Elementwise, DropoutOfColumnsEqualsThatOfAllColumns) {
  each_trial([](const Trial& s) {
    const Random random = Random{42}.with("lora_A");
    Matrix &whole = s.matrix(6), &parts = s.matrix(6);
    s.ops.run(op::Dropout{.y = whole, .x = whole, .p = 0.3f, .random = random});
    const std::int64_t middle = (s.cols + 2) / 3;
    for (const auto& [first, end] : {std::pair{std::int64_t{0}, middle}, {middle, s.cols}}) {
      if (first == end) continue;
      const Tensor some = parts.tensor.columns(first, end);
      s.ops.run(op::Dropout{
          .y = some, .x = some, .p = 0.3f, .random = random, .first_column = first, .columns = s.cols});
    }
    EXPECT_EQ(parts.values(), whole.values());
  });
}

// Dropout inside an operation gives the same as separate dropout, except for one rounding; in f32 there is
// none.
TEST(Elementwise, DropoutWithinOtherOperationsEqualsDropoutAlone) {
  each_trial([](const Trial& s) {
    const op::Drop drop{.p = 0.3f, .random = Random{42}.with("wo"), .first_row = 37};
    const auto dropped = [&](Matrix& x) {
      s.ops.run(op::Dropout{.y = x, .x = x, .p = drop.p, .random = drop.random, .first_row = 37});
    };
    const auto expect_same = [&](const Matrix& got, const Matrix& want) {
      if (s.type == DType::f32) {
        EXPECT_EQ(got.values(), want.values());
      }
      EXPECT_LT(nmse(got.values(), want.values()), 4 * s.tolerance());  // both are rounded
    };
    Matrix &gate = s.matrix(1, 5), &up = s.matrix(2), &d = s.matrix(3), &own = s.matrix(3);
    Matrix &y = s.matrix(4), &want = s.matrix(4), &dup = s.matrix(5), &want_dup = s.matrix(5);
    s.ops.run(op::Gated{.f = Activation::silu, .y = y, .gate = gate, .up = up, .drop = drop});
    s.ops.run(op::Gated{.f = Activation::silu, .y = want, .gate = gate, .up = up});
    dropped(want);
    expect_same(y, want);
    dropped(own);
    s.ops.run(op::GatedGrad{
        .f = Activation::silu, .dgate = y, .dup = dup, .dy = d, .gate = gate, .up = up, .drop = drop});
    s.ops.run(op::GatedGrad{
        .f = Activation::silu, .dgate = want, .dup = want_dup, .dy = own, .gate = gate, .up = up});
    expect_same(y, want);
    expect_same(dup, want_dup);
    s.ops.run(op::GatedGrad{.f = Activation::relu, .dgate = y, .dy = d, .gate = gate, .drop = drop});
    s.ops.run(op::GatedGrad{.f = Activation::relu, .dgate = want, .dy = own, .gate = gate});
    expect_same(y, want);
    s.ops.run(op::Add{.y = d, .x = up, .drop = drop});
    s.ops.run(op::Add{.y = own, .x = up});
    EXPECT_LT(nmse(d.values(), own.values()), 4 * s.tolerance());
  });
}

TEST(Elementwise, DropoutOfNothingChangesNothing) {
  CpuOps ops(1);
  Matrix x(7, 300, DType::f32), y(7, 300, DType::f32);
  x.randomize(1);
  ops.run(op::Dropout{.y = y, .x = x, .p = 0, .random = Random{9}});
  EXPECT_EQ(y.values(), x.values());
  Matrix ones(300, 301, DType::f32);
  ops.run(op::Fill{ones, 1});
  ops.run(op::Dropout{.y = ones, .x = ones, .p = 0.25f, .random = Random{9}});
  double mean = 0;
  for (const double v : ones.values()) mean += v / double(ones.size());
  EXPECT_NEAR(mean, 1, 0.01);
}

class Gated : public testing::TestWithParam<Activation> {
 protected:
  // 1 - sigmoid(x) loses digits near 1, as in PyTorch.
  static double slope_tolerance(const Trial& s) {
    return (GetParam() == Activation::sigmoid ? 100 : 1) * s.tolerance();
  }
};

TEST_P(Gated, ValueIsTheReference) {
  each_trial([](const Trial& s) {
    Matrix &gate = s.matrix(1, 5), &up = s.matrix(2), &y = s.matrix(3);
    s.ops.run(op::Gated{.f = GetParam(), .y = y, .gate = gate, .up = up});
    const auto g = gate.values(), u = up.values();
    std::vector<double> want;
    for (std::size_t i = 0; i < g.size(); ++i) want.push_back(reference::activate(GetParam(), g[i]) * u[i]);
    EXPECT_LT(nmse(y.values(), want), s.tolerance());
  });
}

TEST_P(Gated, GradientIsTheReferenceAlsoInPlace) {
  each_trial([](const Trial& s) {
    Matrix &gate = s.matrix(1, 5), &up = s.matrix(2), &dy = s.matrix(3);
    Matrix &dgate = s.matrix(4), &dup = s.matrix(5);
    s.ops.run(op::GatedGrad{.f = GetParam(), .dgate = dgate, .dup = dup, .dy = dy, .gate = gate, .up = up});
    const auto g = gate.values(), u = up.values(), d = dy.values();
    std::vector<double> want_gate, want_up;
    for (std::size_t i = 0; i < g.size(); ++i) {
      want_gate.push_back(d[i] * u[i] * reference::activation_slope(GetParam(), g[i]));
      want_up.push_back(d[i] * reference::activate(GetParam(), g[i]));
    }
    EXPECT_LT(nmse(dgate.values(), want_gate), slope_tolerance(s));
    EXPECT_LT(nmse(dup.values(), want_up), s.tolerance());
    s.ops.run(op::GatedGrad{.f = GetParam(), .dgate = gate, .dup = up, .dy = dy, .gate = gate, .up = up});
    EXPECT_EQ(gate.values(), dgate.values());
    EXPECT_EQ(up.values(), dup.values());
  });
}

TEST_P(Gated, WithoutUpItIsTheActivation) {
  each_trial([](const Trial& s) {
    Matrix &x = s.matrix(1, 5), &y = s.matrix(2), &dy = s.matrix(3), &dx = s.matrix(4);
    s.ops.run(op::Gated{.f = GetParam(), .y = y, .gate = x});
    s.ops.run(op::GatedGrad{.f = GetParam(), .dgate = dx, .dy = dy, .gate = x});
    const auto in = x.values(), d = dy.values();
    std::vector<double> want, want_dx;
    for (std::size_t i = 0; i < in.size(); ++i) {
      want.push_back(reference::activate(GetParam(), in[i]));
      want_dx.push_back(d[i] * reference::activation_slope(GetParam(), in[i]));
    }
    EXPECT_LT(nmse(y.values(), want), s.tolerance());
    EXPECT_LT(nmse(dx.values(), want_dx), slope_tolerance(s));
    s.ops.run(op::GatedGrad{.f = GetParam(), .dgate = x, .dy = dy, .gate = x});
    EXPECT_EQ(x.values(), dx.values());
  });
}

TEST_P(Gated, LargeArgumentsStayFiniteAndNaNStaysNaN) {
  for (const NamedKernels& named : all_kernels()) {
    CpuOps ops(1, named.kernels);
    Matrix gate(1, 6, DType::f32), up(1, 6, DType::f32), y(1, 6, DType::f32), d(1, 6, DType::f32);
    gate.assign({-1000, -100, -20, 100, 1000, NAN});
    ops.run(op::Fill{up, 1});
    ops.run(op::Gated{.f = GetParam(), .y = y, .gate = gate, .up = up});
    for (int i = 0; i < 3; ++i) EXPECT_NEAR(y.get(0, i), 0, 1e-6) << named.name;
    const bool levels_off = GetParam() == Activation::sigmoid;
    EXPECT_EQ(y.get(0, 3), levels_off ? 1 : 100);
    EXPECT_EQ(y.get(0, 4), levels_off ? 1 : 1000);
    EXPECT_TRUE(std::isnan(y.get(0, 5)));
    ops.run(op::GatedGrad{.f = GetParam(), .dgate = d, .dup = y, .dy = up, .gate = gate, .up = up});
    for (int i = 0; i < 5; ++i) EXPECT_NEAR(d.get(0, i), i < 3 || levels_off ? 0 : 1, 1e-6) << named.name;
  }
}

TEST_P(Gated, ReferenceGradientIsTheComplexStep) {
  for (double x = -4.05; x < 4; x += 0.1) {
    const double h = 1e-20;
    const double slope = reference::activate(GetParam(), std::complex<double>(x, h)).imag() / h;
    EXPECT_NEAR(slope, reference::activation_slope(GetParam(), x), 1e-11) << x;
  }
}

INSTANTIATE_TEST_SUITE_P(All, Gated,
                         testing::Values(Activation::silu, Activation::gelu, Activation::gelu_tanh,
                                         Activation::relu, Activation::sigmoid));

template <class V>
V limited_gate(V gate, V up, double limit, double steepness) {
  const V g = std::real(gate) > limit ? V(limit) : gate;
  const V u = std::abs(std::real(up)) > limit ? V(std::copysign(limit, std::real(up))) : up;
  return (u + 1.0) * g / (1.0 + std::exp(-steepness * g));
}

// Limits that some gates and ups exceed, and a limit that none exceeds.
TEST(GatedPairs, AreTheReferenceWithGradientsAlsoInPlace) {
  for (const float limit : {0.7f, 100.0f})
    each_trial([&](const Trial& s) {
      const double steepness = double(1.702f), h = 1e-20;
      Matrix &x = s.matrix(s.rows, 2 * s.cols, s.type).randomize(1, 3), &y = s.matrix(2), &dy = s.matrix(3),
             &dx = s.matrix(s.rows, 2 * s.cols, s.type);
      s.ops.run(op::GatedPairs{.y = y, .x = x, .limit = limit, .steepness = 1.702f});
      s.ops.run(op::GatedPairsGrad{.dx = dx, .dy = dy, .x = x, .limit = limit, .steepness = 1.702f});
      const auto in = x.values(), d = dy.values();
      std::vector<double> want, want_dx;
      for (std::size_t i = 0; i < d.size(); ++i) {
        using C = std::complex<double>;
        const double g = in[2 * i], u = in[2 * i + 1];
        want.push_back(limited_gate(g, u, double(limit), steepness));
        want_dx.push_back(d[i] * limited_gate(C(g, h), C(u), double(limit), steepness).imag() / h);
        want_dx.push_back(d[i] * limited_gate(C(g), C(u, h), double(limit), steepness).imag() / h);
      }
      EXPECT_LT(nmse(y.values(), want), s.tolerance());
      EXPECT_LT(nmse(dx.values(), want_dx), s.tolerance());
      s.ops.run(op::GatedPairsGrad{.dx = x, .dy = dy, .x = x, .limit = limit, .steepness = 1.702f});
      EXPECT_EQ(x.values(), dx.values());
    });
}

// At a limit PyTorch's clamp has the slope 1.
TEST(GatedPairs, LimitsBelongToTheirInsideAndNaNStaysNaN) {
  for (const NamedKernels& named : all_kernels()) {
    CpuOps ops(1, named.kernels);
    Matrix x(1, 8, DType::f32), y(1, 4, DType::f32), dx(1, 8, DType::f32), one(1, 4, DType::f32);
    x.assign({7, 7, 8, -7, NAN, 1, 1, NAN});
    ops.run(op::Fill{one, 1});
    ops.run(op::GatedPairs{.y = y, .x = x, .limit = 7, .steepness = 1.702f});
    ops.run(op::GatedPairsGrad{.dx = dx, .dy = one, .x = x, .limit = 7, .steepness = 1.702f});
    EXPECT_TRUE(std::isnan(y.get(0, 2)) && std::isnan(y.get(0, 3))) << named.name;
    EXPECT_NEAR(dx.get(0, 0), 8, 1e-3) << named.name;
    EXPECT_NEAR(dx.get(0, 1), 7, 1e-3) << named.name;
    EXPECT_EQ(dx.get(0, 2), 0) << named.name;
    EXPECT_NEAR(dx.get(0, 3), 7, 1e-3) << named.name;
  }
}

}  // namespace
}  // namespace ft::cpu
