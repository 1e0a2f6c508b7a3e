// When a rank is reported because the others wait for it.
#include "engine/ranks/delay.h"

#include <gtest/gtest.h>

namespace ft {
namespace {

using std::chrono::milliseconds;
using Event = Delay::Event;

// A run in which all ranks take part in every collective, observed every half second or less.
class Delays : public testing::Test {
 protected:
  Event look(int ms, std::int64_t step, std::uint64_t begun, bool waiting) {
    now_ += milliseconds(ms);
    return delay_.look(now_, {step, begun, waiting});
  }
  // Steps of `ms` milliseconds with four collectives each, which give no report.
  void steps(int n, int ms) {
    for (int i = 0; i < n; ++i, ++step_)
      for (int k = 0; k < 4; ++k) ASSERT_EQ(look(ms / 4, step_, ++begun_, k % 2 == 0), Event::none);
  }
  double seconds() const { return std::chrono::duration<double>(delay_.lasted()).count(); }

  std::int64_t step_ = 1;
  std::uint64_t begun_ = 0;

 private:
  Delay delay_;
  Delay::Time now_{};
};

TEST_F(Delays, ReportsADelayOnceAndItsEnd) {
  steps(5, 400);
  EXPECT_EQ(look(100, step_, begun_, true), Event::none);
  EXPECT_EQ(look(2500, step_, begun_, true), Event::none);
  EXPECT_EQ(look(500, step_, begun_, true), Event::late);
  EXPECT_NEAR(seconds(), 3.1, 0.11);
  EXPECT_EQ(look(500, step_, begun_, true), Event::none);
  EXPECT_EQ(look(500, step_, begun_, false), Event::none);  // no rank happened to wait at this time
  EXPECT_EQ(look(500, step_, ++begun_, true), Event::over);
  EXPECT_NEAR(seconds(), 4.6, 0.11);
  steps(3, 400);
  EXPECT_EQ(look(0, step_, begun_, true), Event::none);
  EXPECT_EQ(look(3000, step_, begun_, true), Event::late);  // the delayed step does not count as usual
}

TEST_F(Delays, WaitingWithinALongStepIsUsual) {
  steps(3, 40'000);
  EXPECT_EQ(look(0, step_, begun_, true), Event::none);
  EXPECT_EQ(look(30'000, step_, begun_, true), Event::none);
  EXPECT_EQ(look(11'000, step_, begun_, true), Event::late);
}

TEST_F(Delays, TheFirstStepHasNoKnownDelay) {
  EXPECT_EQ(look(60'000, 0, 3, true), Event::none);
  EXPECT_EQ(look(60'000, 1, 4, true), Event::none);
  EXPECT_EQ(look(60'000, 1, 4, true), Event::none);
}

TEST_F(Delays, NoDelayIfNoRankWaits) {
  steps(3, 400);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(look(1000, step_, begun_, false), Event::none);
}

}  // namespace
}  // namespace ft
