// Messages between ranks in few bits, and the step of 1-bit Adam, against the same in f64.
#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/engine/cpu/leaf_fixture.h"

namespace ft::cpu {
namespace {

// Runs the test with f32 vectors of several lengths.
template <class Test>
void each_length(Test run) {
  each_trial({{1, 1}, {1, 7}, {1, 64}, {1, 9001}, {1, 70000}}, [&](const Trial& s) {
    if (s.type == DType::f32 && s.pad == 0) run(s);
  });
}

TEST(FirstMoment, FollowsTheDoublePrecisionFormula) {
  for (const bool adds : {false, true})
    each_length([=](const Trial& s) {
      Matrix &y = s.matrix(1), &m = s.matrix(2), &grad = s.matrix(3);
      std::vector<double> want = y.values();
      const std::vector<double> first = m.values(), g = grad.values();
      for (std::size_t i = 0; i < want.size(); ++i)
        want[i] = (adds ? want[i] : 0) + 0.9 * first[i] + 0.1 * 0.5 * g[i];
      s.ops.run(op::FirstMoment{.y = y, .m = m, .grad = grad, .beta = 0.9, .grad_scale = 0.5f, .adds = adds});
      EXPECT_LT(nmse(y.values(), want), 1e-12);
      if (adds) return;
      s.ops.run(op::FirstMoment{.y = m, .m = m, .grad = grad, .beta = 0.9, .grad_scale = 0.5f});
      EXPECT_LT(nmse(m.values(), want), 1e-12);
    });
}

TEST(PlainAdam, FollowsTheDoublePrecisionFormula) {
  for (const bool frozen : {false, true})
    each_length([=](const Trial& s) {
      Matrix &master = s.matrix(1), &v = s.matrix(2), &m = s.matrix(3), &grad = s.matrix(4);
      for (std::int64_t i = 0; i < s.cols; ++i) v.set(0, i, std::abs(v.get(0, i)));
      std::vector<double> p = master.values(), second = v.values();
      const std::vector<double> first = m.values(), g = grad.values();
      for (std::size_t i = 0; i < p.size(); ++i) {
        if (!frozen) second[i] = 0.99 * second[i] + 0.01 * std::pow(0.5 * g[i], 2);
        p[i] -= 0.1 * (first[i] / (std::sqrt(second[i]) + 1e-3) + 0.2 * p[i]);
      }
      s.ops.run(op::PlainAdam{.master = master,
                              .v = v,
                              .m = m,
                              .grad = frozen ? Tensor{} : grad,
                              .lr = 0.1,
                              .beta2 = 0.99,
                              .eps = 1e-3,
                              .decay = 0.2,
                              .grad_scale = 0.5f});
      EXPECT_LT(nmse(master.values(), p), 1e-12);
      EXPECT_LT(nmse(v.values(), second), 1e-12);
    });
}

TEST(Signs, AreSentWithOneMagnitudeAndTheRestIsKept) {
  each_length([](const Trial& s) {
    const std::int64_t n = s.cols, bytes = (n + 7) / 8;
    Matrix &x = s.matrix(1), &bits = s.vector(bytes, DType::u8), &scale = s.vector(1, DType::f32),
           &squares = s.vector(1, DType::f64), &y = s.matrix(2);
    x.set(0, 0, 0);  // its sign counts as +
    const std::vector<double> before = x.values();
    std::vector<double> want = y.values();
    squares.set(0, 0, 9.0 * 4);
    s.ops.run(op::EncodeSigns{.bits = bits, .scale = scale, .x = x, .squares = squares, .count = 4});
    EXPECT_EQ(scale.get(0, 0), 3);
    s.ops.run(op::AddSigns{.y = y, .bits = bits, .scales = scale, .factor = 0.5f});
    std::vector<double> lost = before;
    for (std::size_t i = 0; i < before.size(); ++i) {
      lost[i] -= before[i] < 0 ? -3 : 3;
      want[i] += before[i] < 0 ? -1.5 : 1.5;
    }
    EXPECT_LT(nmse(x.values(), lost), 1e-12);
    EXPECT_LT(nmse(y.values(), want), 1e-12);
  });
}

// The messages of several ranks are rows: each has a scale, other bytes, and its sign bits.
TEST(Signs, OfSeveralRanksAreAddedUp) {
  each_length([](const Trial& s) {
    const std::int64_t n = s.cols, bytes = (n + 7) / 8, row = 8 + (bytes + 3) / 4 * 4;
    Matrix &all = s.vector(3 * row, DType::u8), &y = s.matrix(1), &squares = s.vector(1, DType::f64);
    std::vector<double> want = y.values();
    std::byte* const data = all.tensor.data;
    for (int r = 0; r < 3; ++r) {
      Matrix& x = s.matrix(static_cast<std::uint64_t>(5 + r));
      const std::vector<double> part = x.values();
      for (std::size_t i = 0; i < want.size(); ++i) want[i] += (part[i] < 0 ? -1 : 1) * (r + 1) / 3.0;
      squares.set(0, 0, std::pow(r + 1, 2));
      s.ops.run(op::EncodeSigns{.bits = Tensor(data + r * row + 8, DType::u8, {bytes}),
                                .scale = Tensor(data + r * row, DType::f32, {1}),
                                .x = x,
                                .squares = squares,
                                .count = 1});
    }
    s.ops.run(op::AddSigns{.y = y,
                           .bits = Tensor(data + 8, DType::u8, {3, bytes}, row),
                           .scales = Tensor(data, DType::f32, {3, 1}, row / 4),
                           .factor = 1 / 3.0f});
    EXPECT_LT(nmse(y.values(), want), 1e-12);
  });
}

// Runs the test with sizes in full blocks.
template <class Test>
void each_blocks(Test run) {
  each_trial({{1, 256}, {3, 512}, {2, 5120}}, [&](const Trial& s) { run(s); });
}

double largest(const Matrix& x, std::int64_t row, std::int64_t block) {
  double most = 0;
  for (std::int64_t i = 0; i < op::kWireBlock; ++i)
    most = std::max(most, std::abs(x.get(row, block * op::kWireBlock + i)));
  return most;
}

TEST(Blocks, AreWithinHalfAScale) {
  for (const int bits : {4, 8})
    each_blocks([=](const Trial& s) {
      const std::int64_t blocks = s.cols / op::kWireBlock;
      Matrix &x = s.matrix(1), &y = s.matrix(2), &codes = s.matrix(s.rows, s.cols * bits / 8, DType::u8),
             &scales = s.matrix(s.rows, blocks, DType::f32);
      for (std::int64_t i = 0; i < op::kWireBlock; ++i) x.set(0, i, 0);
      s.ops.run(op::EncodeBlocks{.codes = codes, .scales = scales, .x = x, .bits = bits});
      s.ops.run(op::DecodeBlocks{.y = y, .codes = codes, .scales = scales, .bits = bits});
      const double steps = bits == 8 ? 127 : 7;
      double worst = 0;
      for (std::int64_t r = 0; r < s.rows; ++r)
        for (std::int64_t b = 0; b < blocks; ++b) {
          const double scale = largest(x, r, b) / steps;
          EXPECT_NEAR(scales.get(r, b), scale, 1e-6 * scale);
          for (std::int64_t i = b * op::kWireBlock; i < (b + 1) * op::kWireBlock; ++i)
            worst = std::max(worst, std::abs(x.get(r, i) - y.get(r, i)) - scale / 2);
        }
      EXPECT_LT(worst, 2 * std::sqrt(s.tolerance()));  // of values up to 2
      const std::vector<double> before = y.values();
      s.ops.run(op::DecodeBlocks{.y = y, .codes = codes, .scales = scales, .bits = bits, .adds = true});
      std::vector<double> twice = before;
      for (double& v : twice) v *= 2;
      EXPECT_LT(nmse(y.values(), twice), s.tolerance());
    });
}

TEST(Blocks, LoseAsMuchOfNormalValuesAsTheyMay) {
  CpuOps ops(1);
  for (const auto& [bits, bound] : {std::pair{8, 8e-5}, {4, 0.03}}) {
    Matrix x(1, 65536, DType::f32), y(1, 65536, DType::f32), codes(1, 65536 * bits / 8, DType::u8),
        scales(1, 256, DType::f32);
    for (std::int64_t i = 0; i < 65536; ++i) {  // twelve uniform numbers approximate a normal one
      double sum = -6;
      for (std::uint64_t j = 0; j < 3; ++j)
        for (const auto u : Random{7}.at(static_cast<std::uint64_t>(i) * 3 + j)) sum += to_uniform(u);
      x.set(0, i, sum);
    }
    ops.run(op::EncodeBlocks{.codes = codes, .scales = scales, .x = x.tensor, .bits = bits});
    ops.run(op::DecodeBlocks{.y = y.tensor, .codes = codes, .scales = scales, .bits = bits});
    const double lost = nmse(y.values(), x.values());
    EXPECT_LT(lost, bound) << bits;
    EXPECT_GT(lost, bound / 10) << bits;
  }
}

TEST(Blocks, OfNonFiniteNumbersAreNan) {
  each_blocks([](const Trial& s) {
    for (const double bad :
         {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
      Matrix &x = s.matrix(1), &codes = s.matrix(s.rows, s.cols, DType::u8),
             &scales = s.matrix(s.rows, s.cols / op::kWireBlock, DType::f32);
      x.set(0, 17, bad);
      s.ops.run(op::EncodeBlocks{.codes = codes, .scales = scales, .x = x, .bits = 8});
      s.ops.run(op::DecodeBlocks{.y = x, .codes = codes, .scales = scales, .bits = 8});
      for (std::int64_t i = 0; i < op::kWireBlock; ++i) EXPECT_TRUE(std::isnan(x.get(0, i)));
      if (s.cols > op::kWireBlock) {
        EXPECT_TRUE(std::isfinite(x.get(0, op::kWireBlock)));
      }
    }
  });
}

}  // namespace
}  // namespace ft::cpu
