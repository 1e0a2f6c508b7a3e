// The loss scale against DeepSpeed's algorithm, written out a second time in its own words, and by hand.
#include "engine/train/loss_scaler.h"

#include <gtest/gtest.h>

#include <vector>

#include "engine/core/random.h"

namespace ft {
namespace {

// DeepSpeed's DynamicLossScaler.update_scale.
struct Reference {
  LossScaling c;
  double cur_scale = std::ldexp(1.0, c.initial_scale_power);
  std::int64_t cur_iter = 0, last_overflow_iter = -1, cur_hysteresis = c.hysteresis;

  bool update_scale(bool overflow) {
    if (overflow) {
      if (c.hysteresis == 1 || cur_hysteresis == 1) {
        if (cur_scale == c.min_loss_scale) return false;
        cur_scale = std::max(cur_scale / 2, c.min_loss_scale);
      } else {
        cur_hysteresis -= 1;
      }
      last_overflow_iter = cur_iter;
    } else {
      if (c.consecutive_hysteresis) cur_hysteresis = c.hysteresis;
      const std::int64_t stable_interval = (cur_iter - last_overflow_iter) - 1;
      if (stable_interval > 0 && stable_interval % c.loss_scale_window == 0) {
        if (!c.consecutive_hysteresis) cur_hysteresis = c.hysteresis;
        cur_scale *= 2;
      }
    }
    cur_iter += 1;
    return true;
  }
};

TEST(LossScaler, IsDeepSpeeds) {
  for (const std::int64_t window : {1, 2, 3, 7, 50})
    for (const std::int64_t hysteresis : {1, 2, 3})
      for (const bool consecutive : {false, true})
        for (const std::uint32_t every : {2u, 3u, 9u, 40u}) {
          const LossScaling c{.initial_scale_power = 6,
                              .loss_scale_window = window,
                              .hysteresis = hysteresis,
                              .consecutive_hysteresis = consecutive,
                              .min_loss_scale = 0.5};
          LossScaler scaler(c);
          Reference want{c};
          for (std::uint64_t i = 0; i < 500; ++i) {
            const bool overflow = Random{every}.at(i)[0] % every == 0;
            ASSERT_EQ(scaler.update(overflow), want.update_scale(overflow)) << i;
            ASSERT_EQ(scaler.scale(), want.cur_scale) << i;
            ASSERT_EQ(scaler.state().hysteresis, want.cur_hysteresis) << i;
          }
        }
}

// The scale after each step; o: an overflow.
std::vector<double> scales(LossScaler& scaler, const char* steps) {
  std::vector<double> all;
  for (; *steps; ++steps) {
    EXPECT_TRUE(scaler.update(*steps == 'o'));
    all.push_back(scaler.scale());
  }
  return all;
}

TEST(LossScaler, HysteresisIsSpentOnceAndRefilledByAWindow) {
  LossScaler scaler({.initial_scale_power = 4, .loss_scale_window = 3});
  // The first overflow is tolerated, further ones halve; a window of good steps behind one doubles, and the
  // next overflow is tolerated again.
  EXPECT_EQ(scales(scaler, "ooo"), (std::vector<double>{16, 8, 4}));
  EXPECT_EQ(scales(scaler, "....."), (std::vector<double>{4, 4, 4, 8, 8}));
  EXPECT_EQ(scales(scaler, "oo.o"), (std::vector<double>{8, 4, 4, 2}));
}

TEST(LossScaler, ConsecutiveHysteresisIsRefilledByEveryGoodStep) {
  LossScaler scaler({.initial_scale_power = 4, .consecutive_hysteresis = true});
  EXPECT_EQ(scales(scaler, "o.o.oo"), (std::vector<double>{16, 16, 16, 16, 16, 8}));
}

TEST(LossScaler, TheDefaultsAreDeepSpeeds) {
  LossScaler scaler;
  EXPECT_EQ(scaler.scale(), 65536);
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(scaler.update(false));
  EXPECT_EQ(scaler.scale(), 65536);
  EXPECT_TRUE(scaler.update(false));
  EXPECT_EQ(scaler.scale(), 131072);
}

TEST(LossScaler, StopsAtTheMinimum) {
  LossScaler scaler({.initial_scale_power = 2});
  EXPECT_EQ(scales(scaler, "ooo"), (std::vector<double>{4, 2, 1}));
  const LossScaler::State before = scaler.state();
  EXPECT_FALSE(scaler.update(true));
  EXPECT_EQ(scaler.state(), before);
  LossScaler odd({.initial_scale_power = 2, .hysteresis = 1, .min_loss_scale = 3});
  EXPECT_TRUE(odd.update(true));
  EXPECT_EQ(odd.scale(), 3);
  EXPECT_FALSE(odd.update(true));
}

TEST(LossScaler, AScaleThatIsGivenNeverMoves) {
  LossScaler scaler({.loss_scale = 128, .loss_scale_window = 1});
  for (int i = 0; i < 50; ++i) EXPECT_TRUE(scaler.update(i % 2 == 0));
  EXPECT_EQ(scaler.scale(), 128);
}

TEST(LossScaler, GoesOnFromItsState) {
  const LossScaling c{.loss_scale_window = 4};
  LossScaler whole(c), part(c);
  for (std::uint64_t i = 0; i < 60; ++i) {
    const bool overflow = Random{5}.at(i)[0] % 6 == 0;
    if (i == 23) {
      LossScaler fresh(c);
      fresh.restore(part.state());
      part = fresh;
    }
    EXPECT_EQ(whole.update(overflow), part.update(overflow));
    EXPECT_EQ(whole.state(), part.state());
  }
}

}  // namespace
}  // namespace ft
