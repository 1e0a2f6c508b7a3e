// LoRA-GA's A and B of a diagonal gradient, whose singular vectors are the axes. tests/life/lora_ga_test.cpp
// compares with PEFT.
#include "lora/starts/lora_ga.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace ft::lora {
namespace {

constexpr std::int64_t kSide = 6, kTakes = 3;

// Returns the factors of the diagonal gradient 6, 5, 4, 3, 2, 1.
Factors of_diagonal(const LoraGaConfig& config, std::uint64_t seed = 1) {
  std::vector<float> g(kSide * kSide);
  for (std::int64_t i = 0; i < kSide; ++i)
    g[static_cast<std::size_t>(i * kSide + i)] = static_cast<float>(kSide - i);
  return begin_from_gradient({.gradient = {g.data(), kSide, kSide},
                              .rank = kTakes,
                              .scale = 4,
                              .rows = 16,
                              .largest_singular = [] { return 12.0; }},
                             config, Random{seed});
}

// Returns the axis that a row of A, or a column of B, lies on, and the size there. Expects zeros elsewhere.
std::pair<std::int64_t, double> axis_of(const Factors& f, bool down, std::int64_t k) {
  std::pair<std::int64_t, double> found{-1, 0};
  for (std::int64_t i = 0; i < kSide; ++i) {
    const double v = std::abs(down ? f.a[static_cast<std::size_t>(k * kSide + i)]
                                   : f.b[static_cast<std::size_t>(i * kTakes + k)]);
    if (v < 1e-6) continue;
    EXPECT_EQ(found.first, -1);
    found = {i, v};
  }
  return found;
}

void expect_axes(const Factors& f, const std::vector<std::int64_t>& a, const std::vector<std::int64_t>& b,
                 double a_by, double b_by) {
  for (std::size_t k = 0; k < a.size(); ++k) {
    const auto [of_a, size_a] = axis_of(f, true, static_cast<std::int64_t>(k));
    const auto [of_b, size_b] = axis_of(f, false, static_cast<std::int64_t>(k));
    EXPECT_EQ(of_a, a[k]);
    EXPECT_EQ(of_b, b[k]);
    EXPECT_NEAR(size_a, a_by, 1e-5);
    EXPECT_NEAR(size_b, b_by * static_cast<double>(kSide - b[k]), 1e-5);
  }
}

TEST(LoraGaFactors, TakeTheVectorsOfTheirDirection) {
  const auto scale = LoraGaScale::unit;
  expect_axes(of_diagonal({.direction = LoraGaDirection::a_first, .scale = scale}), {0, 1, 2}, {3, 4, 5}, 1,
              1);
  expect_axes(of_diagonal({.direction = LoraGaDirection::b_first, .scale = scale}), {3, 4, 5}, {0, 1, 2}, 1,
              1);
  expect_axes(of_diagonal({.direction = LoraGaDirection::alternating, .scale = scale}), {1, 3, 5}, {0, 2, 4},
              1, 1);
}

TEST(LoraGaFactors, HaveTheirScale) {
  const std::vector<std::int64_t> a{0, 1, 2}, b{3, 4, 5};
  expect_axes(of_diagonal({.stable_gamma = 4}), a, b, 1, 1);  // 16^(1/4) / 4^(1/2)
  expect_axes(of_diagonal({.stable_gamma = 16}), a, b, 1, 0.5);
  expect_axes(of_diagonal({.scale = LoraGaScale::weight_svd}), a, b, 1, 4);  // 12 / 3
  expect_axes(of_diagonal({.scale = LoraGaScale::gd_scale}), a, b, 0.25, 0.25);
}

TEST(LoraGaFactors, OfARandomDirectionAreOfTheSameVectors) {
  std::vector<bool> seen(kSide);
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Factors f = of_diagonal({.direction = LoraGaDirection::random, .scale = LoraGaScale::unit}, seed);
    std::vector<bool> own(kSide);
    for (std::int64_t k = 0; k < kTakes; ++k) {
      const std::int64_t axis = axis_of(f, true, k).first;
      EXPECT_EQ(axis_of(f, false, k).first, axis);
      EXPECT_FALSE(own[static_cast<std::size_t>(axis)]) << "a vector is taken once";
      own[static_cast<std::size_t>(axis)] = seen[static_cast<std::size_t>(axis)] = true;
    }
  }
  EXPECT_EQ(std::ranges::count(seen, true), kSide);
}

}  // namespace
}  // namespace ft::lora
