#include "engine/zero/formula.h"

#include <gtest/gtest.h>

namespace ft {
namespace {

// The example of figure 1 of the ZeRO paper: 7.5 billion parameters on 64 ranks.
TEST(Formula, ThePapersExample) {
  const double want[] = {120, 31.4, 16.6, 1.9};
  for (int stage = 0; stage < 4; ++stage)
    EXPECT_NEAR(state_bytes(ZeroStage::of(stage), 64, 7.5e9, kMixedPaper) / 1e9, want[stage], 0.05) << stage;
}

TEST(Formula, BytesSent) {
  constexpr StateBytes kF32{4, 4, 8};
  constexpr double N = 4, psi = 1000, part = 3.0 / 4;
  const auto sent = [&](int stage, double frozen, double micro_steps) {
    return sent_bytes(ZeroStage::of(stage), N, psi, frozen, kF32, micro_steps);
  };
  for (int stage = 0; stage < 3; ++stage) EXPECT_EQ(sent(stage, 500, 1), 2 * 4 * psi * part);
  EXPECT_EQ(sent(3, 0, 1), 3 * 4 * psi * part);
  EXPECT_EQ(sent(3, 500, 1), (3 * 4 * psi + 2 * 500) * part);
  EXPECT_EQ(sent(0, 0, 8), sent(0, 0, 1));
  EXPECT_EQ(sent(1, 0, 8), sent(1, 0, 1));
  EXPECT_EQ(sent(2, 0, 8), 9 * 4 * psi * part);
  EXPECT_EQ(sent(3, 0, 8), 8 * sent(3, 0, 1));
}

}  // namespace
}  // namespace ft
