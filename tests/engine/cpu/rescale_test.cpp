// Magnitudes of rows, columns rescaled by them with their gradient, noise, columns and elements by index,
// folded columns and products of single elements, of every target.
#include <cmath>

#include "tests/engine/cpu/leaf_fixture.h"

namespace ft::cpu {
namespace {

TEST(Magnitudes, AreThoseOfTheRows) {
  each_trial([](const Trial& s) {
    const std::int64_t n = s.rows, rank = s.cols;
    Matrix &b = s.matrix(1), &p = s.matrix(rank, n, DType::f32).randomize(2);
    Matrix &magnitude = s.vector(n, DType::f32, 3), &squares = s.vector(n, DType::f32);
    Matrix &scale = s.vector(n, DType::f32), &per_norm = s.vector(n, DType::f32);
    std::vector<double> want, want_scale;
    for (std::int64_t i = 0; i < n; ++i) {
      double sum = 0;
      for (std::int64_t k = 0; k < rank; ++k) sum += b.get(i, k) * p.get(k, i);
      squares.set(0, i, 3 + std::abs(sum) + double(i));
      want.push_back(1 / std::sqrt(squares.get(0, i) + sum));
      want_scale.push_back(want.back() * magnitude.get(0, i));
    }
    s.ops.run(op::Magnitudes{
        .scale = scale, .per_norm = per_norm, .magnitude = magnitude, .squares = squares, .b = b, .p = p});
    EXPECT_LT(nmse(per_norm.values(), want), 1e-12);
    EXPECT_LT(nmse(scale.values(), want_scale), 1e-12);
  });
}

TEST(ScaleColumns, ScalesAndAddsABias) {
  each_trial([](const Trial& s) {
    Matrix &x = s.matrix(1), &y = s.matrix(2), &scale = s.vector(s.cols, DType::f32, 3);
    Matrix& bias = s.vector(s.cols, s.type, 4);
    std::vector<double> plain, biased;
    for (std::int64_t r = 0; r < s.rows; ++r)
      for (std::int64_t c = 0; c < s.cols; ++c) {
        plain.push_back(x.get(r, c) * scale.get(0, c));
        biased.push_back(plain.back() + bias.get(0, c));
      }
    s.ops.run(op::ScaleColumns{.y = y, .x = x, .scale = scale, .bias = bias});
    EXPECT_LT(nmse(y.values(), biased), s.tolerance());
    s.ops.run(op::ScaleColumns{.y = x, .x = x, .scale = scale});  // in place
    EXPECT_LT(nmse(x.values(), plain), s.tolerance());
  });
}

// The gradient of sum of dy * (x scaled by m / n) with respect to m.
TEST(ColumnDots, AddTheGradientOfTheMagnitudes) {
  each_trial([](const Trial& s) {
    Matrix &dy = s.matrix(1), &z = s.matrix(2), &per_norm = s.vector(s.cols, DType::f32, 3);
    Matrix& y = s.vector(s.cols, DType::f32, 4);
    auto want = y.values();
    for (std::int64_t r = 0; r < s.rows; ++r)
      for (std::int64_t c = 0; c < s.cols; ++c)
        want[std::size_t(c)] += dy.get(r, c) * z.get(r, c) * per_norm.get(0, c);
    s.ops.run(op::ColumnDots{.y = y, .a = dy, .b = z, .scale = per_norm});
    EXPECT_LT(nmse(y.values(), want), 1e-11);
  });
}

TEST(GatherColumns, TakesThoseAskedFor) {
  each_trial([](const Trial& s) {
    const std::int64_t n = s.cols / 2 + 1;
    Matrix &x = s.matrix(1), &y = s.matrix(s.rows, n, s.type), &columns = s.indices(n, s.cols);
    s.ops.run(op::GatherColumns{.y = y, .x = x, .columns = columns});
    for (std::int64_t r = 0; r < s.rows; ++r)
      for (std::int64_t c = 0; c < n; ++c) ASSERT_EQ(y.get(r, c), x.get(r, std::int64_t(columns.get(0, c))));
  });
  CpuOps ops(1);
  Matrix x(2, 3, DType::f32), y(2, 1, DType::f32), columns(1, 1, DType::i32);
  for (const double wrong : {-1.0, 3.0}) {
    columns.assign({wrong});
    EXPECT_THROW(ops.run(op::GatherColumns{.y = y, .x = x, .columns = columns}), InternalError);
  }
}

TEST(Hadamard, MultipliesElementsAlsoOfATranspose) {
  each_trial([](const Trial& s) {
    for (const DType type : {s.type, DType::f32})
      for (const bool turned : {false, true}) {
        Matrix &y = s.matrix(1), &x = s.matrix(s.rows, s.cols, type).randomize(2);
        Matrix& w = s.matrix(turned ? s.cols : s.rows, turned ? s.rows : s.cols, s.type).randomize(3);
        std::vector<double> want;
        for (std::int64_t r = 0; r < s.rows; ++r)
          for (std::int64_t c = 0; c < s.cols; ++c)
            want.push_back(x.get(r, c) * (turned ? w.get(c, r) : w.get(r, c)));
        s.ops.run(op::Hadamard{.y = y, .x = x, .w = {.b = w, .tb = turned ? Trans::yes : Trans::no}});
        EXPECT_LT(nmse(y.values(), want), s.tolerance()) << turned;
      }
  });
}

TEST(FoldColumns, AddUpEqualRemaindersAndTheirGradientRepeats) {
  each_trial([](const Trial& s) {
    for (const std::int64_t n : {std::int64_t{1}, s.cols / 3 + 1, s.cols + 2})
      for (const std::int64_t first : {std::int64_t{0}, n / 2, 3 * n + 1}) {
        Matrix &x = s.matrix(1), &narrow = s.matrix(s.rows, n, s.type);
        std::vector<double> sums(std::size_t(s.rows * n)), repeated;
        for (std::int64_t r = 0; r < s.rows; ++r)
          for (std::int64_t j = 0; j < s.cols; ++j) sums[std::size_t(r * n + (first + j) % n)] += x.get(r, j);
        s.ops.run(op::FoldColumns{.y = narrow, .x = x, .first = first});
        EXPECT_LT(nmse(narrow.values(), sums), s.tolerance()) << n << " " << first;
        narrow.randomize(2);
        for (std::int64_t r = 0; r < s.rows; ++r)
          for (std::int64_t j = 0; j < s.cols; ++j)
            repeated.push_back(x.get(r, j) + narrow.get(r, (first + j) % n));
        Matrix wide(s.rows, s.cols, DType::f32);
        wide.assign(x.values());
        s.ops.run(op::FoldColumnsGrad{.dx = wide, .dy = narrow, .first = first});
        EXPECT_LT(nmse(wide.values(), repeated), 1e-13) << n << " " << first;
        s.ops.run(op::FoldColumnsGrad{.dx = x, .dy = narrow, .first = first});
        EXPECT_LT(nmse(x.values(), repeated), s.tolerance()) << n << " " << first;
      }
  });
}

TEST(ScatterElements, PutsThemAndTheirGradientCollects) {
  each_trial([](const Trial& s) {
    const std::int64_t count = (s.rows * s.cols + 2) / 3;  // every third element
    Matrix &y = s.matrix(1), &x = s.vector(count, s.type, 2), &dx = s.vector(count, DType::f32, 3),
           &dy = s.matrix(s.rows, s.cols, DType::f32).randomize(4);
    Matrix places(2, count, DType::i32);
    std::vector<double> want = y.values(), grads = dx.values();
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t row = 3 * i / s.cols, column = 3 * i % s.cols;
      places.tensor.as<std::int32_t>()[i] = std::int32_t(row);
      places.tensor.as<std::int32_t>()[count + i] = std::int32_t(column);
      want[std::size_t(3 * i)] = x.get(0, i);
      grads[std::size_t(i)] += dy.get(row, column);
    }
    s.ops.run(op::ScatterElements{.y = y, .x = x, .at = places});
    EXPECT_EQ(y.values(), want);
    s.ops.run(op::ScatterElementsGrad{.dx = dx, .dy = dy, .at = places});
    EXPECT_LT(nmse(dx.values(), grads), 1e-14);
  });
}

TEST(ScatterElements, PlacesBeyondTheMatrixAreRefused) {
  CpuOps ops(2);
  Matrix y(2, 3, DType::f32), x(1, 1, DType::f32), places(2, 1, DType::i32);
  for (const auto& [row, column] : {std::pair{2, 0}, {0, 3}, {-1, 0}, {0, -1}}) {
    places.tensor.as<std::int32_t>()[0] = row;
    places.tensor.as<std::int32_t>()[1] = column;
    EXPECT_THROW(ops.run(op::ScatterElements{.y = y, .x = x, .at = places}), InternalError);
    EXPECT_THROW(ops.run(op::ScatterElementsGrad{.dx = x, .dy = y, .at = places}), InternalError);
  }
}

TEST(EmbeddingGrad, LeavesOutNegativeIdsAndPadding) {
  CpuOps ops(2);
  Matrix table(2, 3, DType::f32), dy(3, 3, DType::f32), ids(1, 3, DType::i32);
  table.assign({0, 0, 0, 1, 1, 1});
  dy.assign({1, 2, 3, 4, 5, 6, 7, 8, 9});
  ids.assign({-1, 1, -1});
  ops.run(op::EmbeddingGrad{.dtable = table, .ids = ids, .dy = dy});
  EXPECT_EQ(table.values(), (std::vector<double>{0, 0, 0, 5, 6, 7}));
  ids.assign({1, 0, 1});
  ops.run(op::EmbeddingGrad{.dtable = table, .ids = ids, .dy = dy, .padding = 1});
  EXPECT_EQ(table.values(), (std::vector<double>{4, 5, 6, 5, 6, 7}));
}

TEST(Noise, FollowsItsRandomNumbers) {
  each_trial([](const Trial& s) {
    const Random random = Random{42}.with("noise");
    Matrix& y = s.matrix(6);
    const auto before = y.values();
    s.ops.run(op::Noise{.y = y, .scale = 0.25f, .random = random});
    std::vector<double> want;
    for (std::size_t i = 0; i < before.size(); ++i)
      want.push_back(before[i] + 0.25 * (2 * double(to_uniform(random.at(i / 4)[i % 4])) - 1));
    EXPECT_LT(nmse(y.values(), want), s.tolerance());
  });
}

}  // namespace
}  // namespace ft::cpu
