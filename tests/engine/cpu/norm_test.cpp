// RMSNorm, sums over rows, rotary positions and rows by index, of every target.
#include "tests/engine/cpu/leaf_fixture.h"

#include <cmath>
#include "tests/reference/leaf.h"

namespace ft::cpu {
namespace {

constexpr double kEps = 1e-5;

TEST(RmsNorm, IsTheReference) {
  each_trial([](const Trial& s) {
    Matrix &x = s.matrix(1), &y = s.matrix(2), &w = s.vector(s.cols, s.type, 3);
    Matrix& rstd = s.vector(s.rows, DType::f32);
    s.ops.run(op::RmsNorm{.y = y, .rstd = rstd, .x = x, .w = w, .eps = float(kEps)});
    EXPECT_LT(nmse(y.values(), reference::rms_norm(x.values(), w.values(), kEps)), s.tolerance());
    const auto ones = reference::rms_norm(x.values(), std::vector<double>(std::size_t(s.cols), 1.0), kEps);
    for (std::int64_t r = 0; r < s.rows; ++r)
      EXPECT_NEAR(rstd.get(0, r) * x.get(r, 0), ones[std::size_t(r * s.cols)], 1e-6);
  });
}

TEST(RmsNorm, RequestedGradientsAreAdded) {
  each_trial([](const Trial& s) {
    Matrix &x = s.matrix(1), &y = s.matrix(2), &w = s.vector(s.cols, s.type, 3), &dy = s.matrix(4);
    Matrix &rstd = s.vector(s.rows, DType::f32), &dx = s.matrix(5), &dw = s.vector(s.cols, DType::f32, 6);
    auto want_dx = dx.values(), want_dw = dw.values();
    reference::rms_norm_grad(want_dx, want_dw, dy.values(), x.values(), w.values(), kEps);
    s.ops.run(op::RmsNorm{.y = y, .rstd = rstd, .x = x, .w = w, .eps = float(kEps)});
    s.ops.run(op::RmsNormGrad{.dx = dx, .dy = dy, .x = x, .w = w, .rstd = rstd});
    s.ops.run(op::RmsNormGrad{.dw = dw, .dy = dy, .x = x, .w = w, .rstd = rstd});
    EXPECT_LT(nmse(dx.values(), want_dx), s.tolerance());
    EXPECT_LT(nmse(dw.values(), want_dw), s.tolerance(DType::f32));
  });
}

TEST(RmsNorm, CountsItsWeightsFromAnOffset) {
  each_trial([](const Trial& s) {
    Matrix &x = s.matrix(1), &y = s.matrix(2), &w = s.vector(s.cols, s.type, 3), &dy = s.matrix(4);
    Matrix &rstd = s.vector(s.rows, DType::f32), &dx = s.matrix(5), &dw = s.vector(s.cols, DType::f32, 6);
    auto want_dx = dx.values(), want_dw = dw.values();
    reference::rms_norm_grad(want_dx, want_dw, dy.values(), x.values(), w.values(), kEps, 1);
    s.ops.run(op::RmsNorm{.y = y, .rstd = rstd, .x = x, .w = w, .eps = float(kEps), .offset = 1});
    EXPECT_LT(nmse(y.values(), reference::rms_norm(x.values(), w.values(), kEps, 1)), s.tolerance());
    s.ops.run(op::RmsNormGrad{.dx = dx, .dw = dw, .dy = dy, .x = x, .w = w, .rstd = rstd, .offset = 1});
    EXPECT_LT(nmse(dx.values(), want_dx), s.tolerance());
    EXPECT_LT(nmse(dw.values(), want_dw), s.tolerance(DType::f32));
  });
}

TEST(RmsNorm, BothGradientsAtOnceAreTheSame) {
  CpuOps ops(2);
  Matrix x(9, 70, DType::f32), w(1, 70, DType::f32), y(9, 70, DType::f32), rstd(1, 9, DType::f32);
  Matrix dx(9, 70, DType::f32), dw(1, 70, DType::f32), dx2(9, 70, DType::f32), dw2(1, 70, DType::f32);
  ops.run(op::RmsNorm{.y = y, .rstd = rstd, .x = x.randomize(1), .w = w.randomize(2), .eps = 1e-6f});
  for (Matrix* m : {&dx, &dw, &dx2, &dw2}) ops.run(op::Fill{*m, 0});
  ops.run(op::RmsNormGrad{.dx = dx, .dw = dw, .dy = y, .x = x, .w = w, .rstd = rstd});
  ops.run(op::RmsNormGrad{.dx = dx2, .dy = y, .x = x, .w = w, .rstd = rstd});
  ops.run(op::RmsNormGrad{.dw = dw2, .dy = y, .x = x, .w = w, .rstd = rstd});
  EXPECT_TRUE(dx.same_bytes(dx2));
  EXPECT_TRUE(dw.same_bytes(dw2));
}

TEST(RmsNorm, ReferenceGradientIsTheComplexStep) {
  using C = std::complex<double>;
  const std::size_t rows = 2, cols = 5;
  Matrix mx(rows, cols, DType::f64), mw(1, cols, DType::f64), md(rows, cols, DType::f64);
  const auto x = mx.randomize(1).values(), w = mw.randomize(2).values(), dy = md.randomize(3).values();
  std::vector<double> dx(x.size(), 0), dw(w.size(), 0);
  reference::rms_norm_grad(dx, dw, dy, x, w, kEps);
  const auto objective = [&](std::vector<C> cx, std::vector<C> cw) {
    const auto y = reference::rms_norm(cx, cw, kEps);
    C sum = 0;
    for (std::size_t i = 0; i < y.size(); ++i) sum += dy[i] * y[i];
    return sum.imag() / 1e-20;
  };
  const std::vector<C> cx(x.begin(), x.end()), cw(w.begin(), w.end());
  for (std::size_t i = 0; i < x.size(); ++i) {
    auto moved = cx;
    moved[i] += C(0, 1e-20);
    EXPECT_NEAR(objective(moved, cw), dx[i], 1e-12);
  }
  for (std::size_t i = 0; i < w.size(); ++i) {
    auto moved = cw;
    moved[i] += C(0, 1e-20);
    EXPECT_NEAR(objective(cx, moved), dw[i], 1e-12);
  }
}

TEST(ColumnSums, AddToTheVector) {
  each_trial([](const Trial& s) {
    Matrix &x = s.matrix(1), &y = s.vector(s.cols, DType::f32, 2);
    auto want = y.values();
    for (std::int64_t r = 0; r < s.rows; ++r)
      for (std::int64_t c = 0; c < s.cols; ++c) want[std::size_t(c)] += x.get(r, c);
    s.ops.run(op::ColumnSums{y, x});
    EXPECT_LT(nmse(y.values(), want), 1e-12);
  });
}

struct Angles {
  Matrix cos, sin;
  Angles(std::int64_t positions, std::int64_t half)
      : cos(positions, half, DType::f32), sin(positions, half, DType::f32) {
    for (std::int64_t p = 0; p < positions; ++p)
      for (std::int64_t i = 0; i < half; ++i) {
        cos.set(p, i, std::cos(double(p) * std::pow(0.7, double(i))));
        sin.set(p, i, std::sin(double(p) * std::pow(0.7, double(i))));
      }
  }
  std::vector<double> row(const Matrix& m, std::int64_t p) const {
    std::vector<double> v;
    for (std::int64_t i = 0; i < m.tensor.cols(); ++i) v.push_back(m.get(p, i));
    return v;
  }
};

TEST(Rope, RotatesEveryHeadAndItsGradientRotatesBack) {
  each_trial({{1, 2}, {5, 66}, {67, 384}}, [](const Trial& s) {
    for (const std::int64_t width :
         {s.cols, s.cols / 2 % 2 == 0 ? s.cols / 2 : s.cols, s.cols % 6 ? 2l : 6l}) {
      const std::int64_t positions = 40;
      const Angles angles(positions, width / 2);
      Matrix &x = s.matrix(1), &at = s.indices(s.rows, positions);
      const auto before = x.values();
      std::vector<double> want;
      for (std::int64_t r = 0; r < s.rows; ++r)
        for (std::int64_t h = 0; h < s.cols; h += width) {
          const auto first = before.begin() + r * s.cols + h;
          const auto p = std::int64_t(at.get(0, r));
          const auto y = reference::rotate(std::vector<double>(first, first + width),
                                           angles.row(angles.cos, p), angles.row(angles.sin, p));
          want.insert(want.end(), y.begin(), y.end());
        }
      s.ops.run(op::Rope{.x = x, .cos = angles.cos, .sin = angles.sin, .positions = at, .head_width = width});
      EXPECT_LT(nmse(x.values(), want), s.tolerance());
      s.ops.run(op::Rope{
          .x = x, .cos = angles.cos, .sin = angles.sin, .positions = at, .head_width = width, .sign = -1});
      EXPECT_LT(nmse(x.values(), before), 4 * s.tolerance());
    }
  });
}

// Keys beside queries rotate as they do alone, however many heads they have.
TEST(Rope, RotatesTwoTensorsOfOneWidth) {
  each_trial({{1, 2}, {5, 66}, {67, 384}}, [](const Trial& s) {
    const Angles angles(40, s.cols / 2);
    Matrix &q = s.matrix(1), &k = s.matrix(2), &at = s.indices(s.rows, 40);
    Matrix &only_q = s.matrix(1), &only_k = s.matrix(2);
    const op::Rope both{
        .x = q, .more = k, .cos = angles.cos, .sin = angles.sin, .positions = at, .head_width = s.cols};
    s.ops.run(both);
    for (Matrix* m : {&only_q, &only_k}) {
      op::Rope one = both;
      one.x = *m;
      one.more = Tensor{};
      s.ops.run(one);
    }
    EXPECT_EQ(q.values(), only_q.values());
    EXPECT_EQ(k.values(), only_k.values());
  });
}

TEST(Rope, RotatesAPartOfEveryHead) {
  CpuOps ops(1);
  Matrix x(1, 12, DType::f32), cos(1, 1, DType::f32), sin(1, 1, DType::f32), at(1, 1, DType::i32);
  x.assign({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  cos.assign({0});
  sin.assign({1});
  at.assign({0});
  ops.run(op::Rope{.x = x, .cos = cos, .sin = sin, .positions = at, .head_width = 6});
  EXPECT_EQ(x.values(), (std::vector<double>{-2, 1, 3, 4, 5, 6, -8, 7, 9, 10, 11, 12}));
}

// Neighbouring pairs, and a part that does not begin with the head, rotate as the same columns do alone.
TEST(Rope, RotatesNeighboursInThePartOfAHead) {
  each_trial({{1, 5}, {5, 33}, {7, 140}}, [](const Trial& s) {
    const std::int64_t width = s.cols % 7 == 0 ? 7 : s.cols % 3 == 0 ? s.cols / 3 : s.cols, half = width / 4;
    if (half == 0) return;
    for (const std::int64_t first : {std::int64_t{0}, width - 2 * half})
      for (const bool neighbours : {false, true}) {
        const Angles angles(40, half);
        Matrix &x = s.matrix(1), &at = s.indices(s.rows, 40);
        const auto before = x.values();
        std::vector<double> want = before;
        for (std::int64_t r = 0; r < s.rows; ++r)
          for (std::int64_t h = 0; h < s.cols; h += width)
            for (std::int64_t i = 0; i < half; ++i) {
              const std::int64_t row = r * s.cols + h + first, p = std::int64_t(at.get(0, r));
              const auto a = std::size_t(row + (neighbours ? 2 * i : i)),
                         b = neighbours ? a + 1 : a + std::size_t(half);
              const double cos = angles.cos.get(p, i), sin = angles.sin.get(p, i);
              want[a] = before[a] * cos - before[b] * sin;
              want[b] = before[b] * cos + before[a] * sin;
            }
        const auto rotate = [&](float sign) {
          s.ops.run(op::Rope{.x = x,
                             .cos = angles.cos,
                             .sin = angles.sin,
                             .positions = at,
                             .head_width = width,
                             .sign = sign,
                             .first = first,
                             .neighbours = neighbours});
        };
        rotate(1);
        EXPECT_LT(nmse(x.values(), want), s.tolerance());
        rotate(-1);
        EXPECT_LT(nmse(x.values(), before), 4 * s.tolerance());
      }
  });
}

TEST(Rope, ScaledAnglesScale) {  // cos and sin contain yarn's attention factor
  CpuOps ops(1);
  Matrix x(1, 4, DType::f32), cos(1, 2, DType::f32), sin(1, 2, DType::f32), at(1, 1, DType::i32);
  x.assign({1, 2, 3, 4});
  cos.assign({2, 2});
  sin.assign({0, 1});
  at.assign({0});
  ops.run(op::Rope{.x = x, .cos = cos, .sin = sin, .positions = at, .head_width = 4});
  EXPECT_EQ(x.values(), (std::vector<double>{2, 0, 6, 10}));
}

TEST(Embedding, TakesRowsAndItsGradientAddsInRowOrder) {
  each_trial([](const Trial& s) {
    const std::int64_t vocabulary = 11;
    Matrix& table = s.matrix(vocabulary, s.cols, s.type).randomize(1);
    Matrix &y = s.matrix(2), &ids = s.indices(s.rows, vocabulary);
    s.ops.run(op::Embedding{.y = y, .ids = ids, .table = table});
    Matrix &d = s.matrix(3), &dtable = s.matrix(vocabulary, s.cols, DType::f32).randomize(4);
    std::vector<float> want;
    for (const double v : dtable.values()) want.push_back(float(v));
    for (std::int64_t r = 0; r < s.rows; ++r)
      for (std::int64_t c = 0; c < s.cols; ++c) {
        const auto id = std::int64_t(ids.get(0, r));
        EXPECT_EQ(y.get(r, c), table.get(id, c));
        want[std::size_t(id * s.cols + c)] += float(d.get(r, c));
      }
    s.ops.run(op::EmbeddingGrad{.dtable = dtable, .ids = ids, .dy = d});
    EXPECT_EQ(dtable.values(), std::vector<double>(want.begin(), want.end()));
  });
}

TEST(RowsByIndex, GatherAndScatterAreInverse) {
  each_trial({{5, 3}, {200, 300}}, [](const Trial& s) {
    std::vector<double> every_other;
    for (std::int64_t r = s.rows - 1; r >= 0; r -= 2) every_other.push_back(double(r));
    const auto n = std::int64_t(every_other.size());
    Matrix &x = s.matrix(1), &rows = s.vector(n, DType::i32).assign(every_other);
    Matrix &part = s.matrix(n, s.cols, s.type), &y = s.matrix(2);
    const auto before = y.values();
    s.ops.run(op::GatherRows{.y = part, .x = x, .rows = rows});
    s.ops.run(op::ScatterRows{.y = y, .x = part, .rows = rows});
    for (std::int64_t r = 0; r < s.rows; ++r)
      for (std::int64_t c = 0; c < s.cols; ++c)
        ASSERT_EQ(y.get(r, c), (s.rows - 1 - r) % 2 ? before[std::size_t(r * s.cols + c)] : x.get(r, c));
  });
}

TEST(RowsByIndex, ANegativeIdHasARowOfZeros) {
  CpuOps ops(1);
  Matrix table(4, 3, DType::bf16), y(2, 3, DType::bf16), ids(1, 2, DType::i32);
  table.randomize(1);
  y.randomize(2);
  ids.assign({-1, 3});
  ops.run(op::Embedding{.y = y, .ids = ids, .table = table});
  for (std::int64_t c = 0; c < 3; ++c) {
    EXPECT_EQ(y.get(0, c), 0);
    EXPECT_EQ(y.get(1, c), table.get(3, c));
  }
}

TEST(RowsByIndex, AWrongIndexIsAnErrorNotAnAccess) {
  CpuOps ops(1);
  Matrix table(4, 3, DType::f32), y(2, 3, DType::f32), ids(1, 2, DType::i32);
  for (const double wrong : {-1.0, 4.0}) {
    ids.assign({0, wrong});
    if (wrong > 0) {  // negative ones are skipped
      EXPECT_THROW(ops.run(op::Embedding{.y = y, .ids = ids, .table = table}), InternalError);
      EXPECT_THROW(ops.run(op::EmbeddingGrad{.dtable = table, .ids = ids, .dy = y}), InternalError);
    }
    EXPECT_THROW(ops.run(op::GatherRows{.y = y, .x = table, .rows = ids}), InternalError);
    EXPECT_THROW(ops.run(op::ScatterRows{.y = table, .x = y, .rows = ids}), InternalError);
  }
}

}  // namespace
}  // namespace ft::cpu
