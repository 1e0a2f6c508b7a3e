// Singular values and vectors against matrices with known ones, and Q of QR decompositions.
#include "lora/starts/decompose.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace ft::lora {
namespace {

Vectors orthonormal(std::int64_t length, std::int64_t count, std::string_view name) {
  Vectors v(length, count);
  for (std::size_t i = 0; i < v.values.size(); ++i) v.values[i] = normal_at(Random{3}.with(name), i);
  orthonormalize(v);
  return v;
}

double dot(const double* a, const double* b, std::int64_t n) {
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

void expect_orthonormal(const Vectors& v) {
  for (std::int64_t i = 0; i < v.count; ++i)
    for (std::int64_t j = 0; j <= i; ++j)
      ASSERT_NEAR(dot(v[i], v[j], v.length), i == j, 1e-10) << i << " " << j;
}

// A matrix in f32 with nearly these singular values.
struct Known {
  std::int64_t rows, cols;
  std::vector<double> values;
  std::vector<float> w;

  Known(std::int64_t r, std::int64_t c, std::vector<double> s) : rows(r), cols(c), values(std::move(s)) {
    const auto n = static_cast<std::int64_t>(values.size());
    const Vectors left = orthonormal(rows, n, "left"), right = orthonormal(cols, n, "right");
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < cols; ++j) {
        double sum = 0;
        for (std::int64_t k = 0; k < n; ++k) sum += values[std::size_t(k)] * left[k][i] * right[k][j];
        w.push_back(float(sum));
      }
  }
  MatrixView view() const { return {w.data(), rows, cols}; }
};

// Expects W v = s u and W^T u = s v, with an error of at most `wrong` times the largest value.
void expect_singular(const Known& m, const Singular& s, double wrong) {
  expect_orthonormal(s.left);
  expect_orthonormal(s.right);
  for (std::int64_t k = 0; k < s.left.count; ++k) {
    const double value = s.values[std::size_t(k)];
    if (k > 0) {
      EXPECT_LE(value, s.values[std::size_t(k - 1)]);
    }
    EXPECT_NEAR(value, m.values[std::size_t(k)], 1e-6 * m.values[0]);  // W is rounded to f32
    for (std::int64_t i = 0; i < m.rows; ++i) {
      double sum = 0;
      for (std::int64_t j = 0; j < m.cols; ++j)
        sum += double(m.w[std::size_t(i * m.cols + j)]) * s.right[k][j];
      ASSERT_NEAR(sum, value * s.left[k][i], wrong * m.values[0]) << "left " << k;
    }
    for (std::int64_t j = 0; j < m.cols; ++j) {
      double sum = 0;
      for (std::int64_t i = 0; i < m.rows; ++i)
        sum += double(m.w[std::size_t(i * m.cols + j)]) * s.left[k][i];
      ASSERT_NEAR(sum, value * s.right[k][j], wrong * m.values[0]) << "right " << k;
    }
  }
}

std::vector<double> falling(std::int64_t n, double by) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < n; ++i) values.push_back(5 * std::pow(by, double(i)));
  return values;
}

struct Size {
  std::int64_t rows, cols;
};

TEST(LargestSingular, OfSmallAndLargeTallAndWideMatrices) {
  for (const Size s : {Size{1, 1}, Size{7, 5}, Size{5, 9}, Size{40, 40}, Size{210, 230}, Size{260, 200}}) {
    SCOPED_TRACE(std::to_string(s.rows) + " x " + std::to_string(s.cols));
    const std::int64_t n = std::min(s.rows, s.cols);
    const Known flat(s.rows, s.cols, falling(n, 0.98));  // no gap between values, as in real weights
    for (const std::int64_t rank : {std::int64_t{1}, std::min<std::int64_t>(4, n)})
      expect_singular(flat, largest_singular(flat.view(), rank), 1e-9);
  }
}

TEST(LargestSingular, OfMatricesThatLackRank) {
  for (const Size s : {Size{12, 9}, Size{220, 240}}) {
    const Known m(s.rows, s.cols, {3, 2});
    const Singular all = largest_singular(m.view(), 4);
    EXPECT_NEAR(all.values[1], 2, 1e-5);
    EXPECT_LT(all.values[2], 1e-5);
  }
  const std::vector<float> zeros(20);
  const Singular none = largest_singular({zeros.data(), 4, 5}, 2);
  EXPECT_EQ(none.values, (std::vector<double>{0, 0}));
}

TEST(LikelySingular, IsExactWhereTheValuesHaveAGap) {
  std::vector<double> values = falling(30, 0.9);
  for (std::size_t i = 4; i < values.size(); ++i) values[i] *= 1e-4;
  const Known m(60, 45, values);
  expect_singular(m, likely_singular(m.view(), 4, 3, Random{9}), 1e-9);
}

TEST(FirstOfQ, IsThatOfTheDecomposition) {
  const Known m(23, 17, falling(17, 0.8));
  const std::int64_t count = 5;
  const Vectors q = first_of_q(m.view(), count), r = rows_times(m.view(), q);
  expect_orthonormal(q);
  for (std::int64_t k = 0; k < count; ++k)  // R is triangular: no column needs later ones
    for (std::int64_t j = 0; j < k; ++j) EXPECT_NEAR(r[k][j], 0, 1e-9);
  for (std::int64_t j = 0; j < count; ++j)
    for (std::int64_t i = 0; i < m.rows; ++i) {
      double sum = 0;
      for (std::int64_t k = 0; k < count; ++k) sum += q[k][i] * r[k][j];
      EXPECT_NEAR(sum, double(m.w[std::size_t(i * m.cols + j)]), 1e-9);
    }
}

TEST(Orthonormalize, ReplacesDependentVectors) {
  Vectors v(6, 3);
  for (std::int64_t i = 0; i < 6; ++i) v[0][i] = v[1][i] = double(i + 1);
  orthonormalize(v);  // the second equals the first, the third is zero
  expect_orthonormal(v);
}

}  // namespace
}  // namespace ft::lora
