// Philox against the known answers of its authors' Random123 library, and keys that do not collide.
#include "engine/core/random.h"

#include <gtest/gtest.h>

#include <cmath>

namespace ft {
namespace {

TEST(Random, PhiloxKnownAnswers) {
  EXPECT_EQ(philox({0, 0, 0, 0}, 0), (Philox4{0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u}));
  EXPECT_EQ(philox({~0u, ~0u, ~0u, ~0u}, ~0ull),
            (Philox4{0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu}));
  EXPECT_EQ(philox<7>({0, 0, 0, 0}, 0), (Philox4{0x5f6fb709u, 0x0d893f64u, 0x4f121f81u, 0x4f730a48u}));
  EXPECT_EQ(philox<7>({~0u, ~0u, ~0u, ~0u}, ~0ull),
            (Philox4{0x5207ddc2u, 0x45165e59u, 0x4d8ee751u, 0x8c52f662u}));
}

TEST(Random, EightNumbersOfSixteenBits) {
  const Philox4 eight{0x00010000, 0x00030002, 0x00050004, 0x00070006};
  for (std::uint64_t n = 0; n < 8; ++n)
    for (std::uint32_t limit = 0; limit < 9; ++limit)
      EXPECT_EQ(DropRule(static_cast<float>(limit) / 65536).keeps(eight, n), n >= limit) << n << " " << limit;
}

TEST(Random, DropoutIsWithin16BitsOfItsProbability) {
  for (const float p : {0.0f, 1e-9f, 0x1p-17f, 0.1f, 0.25f, 0.3f, 0.999f, 1 - 0x1p-16f, 1 - 0x1p-24f}) {
    const DropRule rule(p);
    EXPECT_LT(rule.limit, 65536u);
    EXPECT_NEAR(rule.limit, p * 65536.0, p > 1 - 0x1p-16f ? 1 : 0.5);
    EXPECT_EQ(double{rule.share()}, 1 - rule.limit / 65536.0);
    EXPECT_FLOAT_EQ(rule.growth() * rule.share(), 1);
  }
  EXPECT_EQ(DropRule(0).growth(), 1);
}

// Each of the eight places alone, over many groups, and neighbours together.
TEST(Random, DropoutDropsItsShareAtEveryPlace) {
  constexpr std::uint64_t kGroups = 1 << 18;
  const DropRule rule(0.1f);
  double dropped[8] = {}, pairs = 0;
  for (std::uint64_t i = 0; i < kGroups; ++i) {
    const Philox4 eight = Random{42}.eight_at(i);
    for (std::uint64_t n = 0; n < 8; ++n) {
      const bool drops = !rule.keeps(eight, n);
      dropped[n] += drops;
      pairs += drops && !rule.keeps(eight, (n + 1) % 8);
    }
  }
  const double p = rule.limit / 65536.0, deviation = std::sqrt(kGroups * p * (1 - p));
  for (const double n : dropped) EXPECT_NEAR(n, kGroups * p, 4 * deviation);
  EXPECT_NEAR(pairs, 8 * kGroups * p * p, 5 * std::sqrt(8 * kGroups * p * p));
}

TEST(Random, FamiliesDiffer) {
  const Random r{42};
  EXPECT_NE(r.with(1).key, r.with(2).key);
  EXPECT_NE(r.with("a").key, r.with("b").key);
  EXPECT_NE(r.with(1).at(0), r.with(1).at(1));
  EXPECT_EQ(r.with("a").at(7), r.with("a").at(7));
}

TEST(Random, UniformIsNeverZero) {
  EXPECT_GT(to_uniform(0), 0.0f);
  EXPECT_EQ(to_uniform(~0u), 1.0f);
}

}  // namespace
}  // namespace ft
