#include "engine/train/schedules/deepspeed.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace ft::schedules {

std::int64_t DeepSpeedWarmup::steps(const Run& run) const {
  return std::max<std::int64_t>(2, warmup_num_steps.value_or(run.warmup));
}

double DeepSpeedWarmup::gamma(std::int64_t iteration, const Run& run) const {
  const auto i = static_cast<double>(iteration), n = static_cast<double>(steps(run));
  return warmup_type == WarmupType::log ? 1 / std::log(n) * std::log(i + 1) : i / n;
}

double WarmupLr::between(double gamma, const Run& run) const {
  const double low = warmup_min_lr.value_or(0), high = warmup_max_lr.value_or(run.rate);
  return low + (high - low) * gamma;
}

double WarmupLr::rate(std::int64_t step, const Run& run) const {
  const std::int64_t i = step - 1;
  if (i < 0) return between(0, run);
  return between(i < steps(run) ? gamma(i, run) : 1, run);
}

double WarmupDecayLr::rate(std::int64_t step, const Run& run) const {
  const std::int64_t i = step - 1, total = total_num_steps.value_or(run.total);
  if (i < steps(run)) return WarmupLr::rate(step, run);
  const auto left = static_cast<double>(total - i), span = static_cast<double>(total - steps(run));
  return between(std::max(0.0, left / std::max(1.0, span)), run);
}

double WarmupCosineLr::rate(std::int64_t step, const Run& run) const {
  const std::int64_t i = step - 1, total = total_num_steps.value_or(run.total);
  if (i < 0) return 0;
  if (i < steps(run)) return run.rate * (warmup_min_ratio + gamma(i, run) * (1 - warmup_min_ratio));
  const auto x = static_cast<double>(i - steps(run) + 1), span = static_cast<double>(total - steps(run));
  const double cosine = (1 + std::cos(std::numbers::pi * std::min(1.0, x / std::max(1.0, span)))) / 2;
  return run.rate * std::max(0.0, cos_min_ratio + (1 - cos_min_ratio) * cosine);
}

double LrRangeTest::rate(std::int64_t step, const Run&) const {
  const double intervals = static_cast<double>(step) / static_cast<double>(lr_range_test_step_size);
  const double grown = lr_range_test_staircase ? std::floor(intervals) : intervals;
  return lr_range_test_min_lr * (1 + lr_range_test_step_rate * grown);
}

}  // namespace ft::schedules
