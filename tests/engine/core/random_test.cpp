// Philox against the known answers of its authors' Random123 library, and keys that do not collide.
#include "engine/core/random.h"

#include <gtest/gtest.h>

namespace ft {
namespace {

TEST(Random, PhiloxKnownAnswers) {
  EXPECT_EQ(philox({0, 0, 0, 0}, 0), (Philox4{0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u}));
  EXPECT_EQ(philox({~0u, ~0u, ~0u, ~0u}, ~0ull),
            (Philox4{0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu}));
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
