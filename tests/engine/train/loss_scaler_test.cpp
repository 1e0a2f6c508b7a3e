// The loss scale against DeepSpeed's DynamicLossScaler (tests/golden/loss_scales.json), and with results by
// hand.
#include "engine/train/loss_scaler.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "engine/core/random.h"
#include "engine/files/json.h"
#include "tests/support/source.h"

namespace ft {
namespace {

TEST(LossScaler, IsDeepSpeeds) {
  const Json golden = read_json(source_path("tests/golden/loss_scales.json"));
  for (const Json& row : golden["loss_scales"]) {
    LossScaler scaler({.initial_scale_power = row["initial_scale_power"],
                       .loss_scale_window = row["loss_scale_window"],
                       .hysteresis = row["hysteresis"],
                       .consecutive_hysteresis = row["consecutive_hysteresis"],
                       .min_loss_scale = row["min_loss_scale"]});
    const std::string overflows = row["overflows"];
    for (std::size_t i = 0; i < overflows.size(); ++i) {
      const Json& want = row["scales"][i];
      ASSERT_EQ(scaler.update(overflows[i] == 'o'), !want.is_null()) << row.dump() << i;
      if (want.is_null()) break;
      ASSERT_EQ(scaler.scale(), want.get<double>()) << row.dump() << i;
    }
  }
}

// Returns the scale after each step; o: an overflow.
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
  // The first overflow is tolerated, further ones halve the scale. A window of good steps after an overflow
  // doubles it, and the next overflow is tolerated again.
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

TEST(LossScaler, AGivenScaleStaysConstant) {
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
