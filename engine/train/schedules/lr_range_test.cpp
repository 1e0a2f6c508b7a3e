// LRRangeTest of DeepSpeed: step s (from 0) uses the rate of s / lr_range_test_step_size.
#include <cmath>

#include "engine/core/rules.h"
#include "engine/train/schedules/made.h"

namespace ft::schedules {
namespace {

// To find the rate at which training diverges.
struct LrRangeTest {
  double lr_range_test_min_lr = 1e-3;
  std::int64_t lr_range_test_step_size = 2000;
  double lr_range_test_step_rate = 1;
  bool lr_range_test_staircase = false;

  void fields(auto& f) {
    f("lr_range_test_min_lr", lr_range_test_min_lr, "The first rate.", at_least(0));
    f("lr_range_test_step_size", lr_range_test_step_size, "Steps in which the rate grows once.", at_least(1));
    f("lr_range_test_step_rate", lr_range_test_step_rate,
      "Growth in these steps, as a fraction of the first rate.", at_least(0));
    f("lr_range_test_staircase", lr_range_test_staircase, "Grow at the end of those steps only.");
  }
  double rate(std::int64_t step, const Run&) const;
};

double LrRangeTest::rate(std::int64_t step, const Run&) const {
  const double intervals = static_cast<double>(step) / static_cast<double>(lr_range_test_step_size);
  const double grown = lr_range_test_staircase ? std::floor(intervals) : intervals;
  return lr_range_test_min_lr * (1 + lr_range_test_step_rate * grown);
}

}  // namespace

const ScheduleKind kLrRangeTest{"LRRangeTest", make<LrRangeTest>};

}  // namespace ft::schedules
