// Batches one after another against all rows at once: with as many components as columns the results are
// equal.
#include "lora/starts/incremental_svd.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

namespace ft::lora {
namespace {

constexpr std::int64_t kColumns = 5;

// Returns rows whose columns have different sizes and means.
std::vector<float> rows(std::int64_t count, std::uint64_t seed) {
  std::vector<float> x(static_cast<std::size_t>(count * kColumns));
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto column = static_cast<double>(i % kColumns);
    x[i] = static_cast<float>(normal_at(Random{seed}, i) * (1 + column) + 3 * column);
  }
  return x;
}

MatrixView view(const std::vector<float>& x) { return {x.data(), std::ssize(x) / kColumns, kColumns}; }

TEST(IncrementalSvd, OfBatchesIsThatOfAllRows) {
  std::vector<float> all;
  IncrementalSvd by_batches(kColumns), at_once(kColumns);
  for (const std::int64_t n : {9, 6, 30}) {
    const std::vector<float> x = rows(n, static_cast<std::uint64_t>(n));
    by_batches.add(view(x));
    all.insert(all.end(), x.begin(), x.end());
  }
  at_once.add(view(all));
  for (std::int64_t k = 0; k < kColumns; ++k) {
    const auto i = static_cast<std::size_t>(k);
    EXPECT_NEAR(by_batches.values()[i], at_once.values()[i], 1e-4);
    EXPECT_NEAR(by_batches.explained()[i], at_once.explained()[i], 1e-6);
    for (std::int64_t c = 0; c < kColumns; ++c)
      EXPECT_NEAR(by_batches.components()[k][c], at_once.components()[k][c], 1e-4) << k << ' ' << c;
  }
  const std::vector<double> shares = at_once.explained();
  EXPECT_NEAR(std::accumulate(shares.begin(), shares.end(), 0.0), 1, 1e-6);
}

TEST(LeadingSingular, IsTheLargest) {
  const std::vector<float> x = rows(80, 6);  // read as 20 columns
  const MatrixView wide{x.data(), 20, 20};
  const Singular some = leading_singular(wide, 4), all = largest_singular(wide, 4);
  for (std::int64_t k = 0; k < 4; ++k)
    EXPECT_NEAR(some.values[static_cast<std::size_t>(k)], all.values[static_cast<std::size_t>(k)],
                1e-8 * all.values[0]);
}

TEST(IncrementalSvd, ComponentsAreUnitVectorsWithALargestElementAboveZero) {
  IncrementalSvd svd(3);
  svd.add(view(rows(20, 4)));
  EXPECT_EQ(svd.similarity(), std::vector<double>(3, 0));
  for (std::int64_t k = 0; k < 3; ++k) {
    double squares = 0, largest = 0;
    for (std::int64_t c = 0; c < kColumns; ++c) {
      const double v = svd.components()[k][c];
      squares += v * v;
      if (std::abs(v) > std::abs(largest)) largest = v;
    }
    EXPECT_NEAR(squares, 1, 1e-9);
    EXPECT_GT(largest, 0);
  }
}

TEST(IncrementalSvd, RepeatedRowsDoNotTurnComponents) {
  IncrementalSvd svd(2);
  const std::vector<float> x = rows(20, 4);
  svd.add(view(x));
  for (int again = 0; again < 3; ++again) svd.add(view(x));
  for (const double s : svd.similarity()) EXPECT_GT(s, 0.999);
}

// Equal rows have fewer directions than components: the others explain nothing.
TEST(IncrementalSvd, EqualRowsExplainNoVariance) {
  IncrementalSvd svd(3);
  const std::vector<float> x(4 * kColumns, 1.5f);
  svd.add(view(x));
  for (const double e : svd.explained()) EXPECT_EQ(e, 0);
}

}  // namespace
}  // namespace ft::lora
