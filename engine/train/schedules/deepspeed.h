// DeepSpeed's schedules (runtime/lr_schedules.py) with its arguments' names and defaults; "auto" takes the
// run's value, as transformers' Trainer fills it in. Its engine steps a schedule after the optimizer, and a
// new schedule stands at iteration -1: step s (from 0) uses the rate of iteration s - 1.
#pragma once
#include <optional>

#include "engine/core/rules.h"
#include "engine/train/schedules/run.h"

namespace ft::schedules {

enum class WarmupType : std::uint8_t { log, linear };
constexpr auto words(WarmupType) {
  using enum WarmupType;
  return to_words<WarmupType>({{log, "log"}, {linear, "linear"}});
}

// What the three with a warm-up share: from 0 at iteration 0 to 1 at iteration max(2, warmup_num_steps).
struct DeepSpeedWarmup {
  std::optional<std::int64_t> warmup_num_steps = 1000;  // empty: auto
  WarmupType warmup_type = WarmupType::log;

  void fields(auto& f) {
    f("warmup_num_steps", warmup_num_steps, "Steps of the warm-up; auto: as training.warmup_steps says.",
      or_auto(), at_least(1));
    f("warmup_type", warmup_type, "How the rate rises.");
  }
  std::int64_t steps(const Run&) const;
  double gamma(std::int64_t iteration, const Run&) const;  // before its end
};

// From warmup_min_lr to warmup_max_lr, and then constant.
struct WarmupLr : DeepSpeedWarmup {
  std::optional<double> warmup_min_lr = 0;  // empty: auto
  std::optional<double> warmup_max_lr;      // empty: auto

  void fields(auto& f) {
    f("warmup_min_lr", warmup_min_lr, "The first rate; auto: 0.", or_auto(), at_least(0));
    f("warmup_max_lr", warmup_max_lr, "The last rate; auto: training.learning_rate.", or_auto(), at_least(0));
    DeepSpeedWarmup::fields(f);
  }
  double between(double gamma, const Run&) const;
  double rate(std::int64_t step, const Run&) const;
};

// Then linear, to warmup_min_lr at total_num_steps.
struct WarmupDecayLr : WarmupLr {
  std::optional<std::int64_t> total_num_steps;  // empty: auto

  WarmupDecayLr() { warmup_max_lr = 0.001; }
  void fields(auto& f) {
    f("total_num_steps", total_num_steps, "The last step; auto: the run's.", required(), or_auto(),
      at_least(1));
    WarmupLr::fields(f);
  }
  double rate(std::int64_t step, const Run&) const;
};

// Then by a cosine to cos_min_ratio at total_num_steps. Ratios are of training.learning_rate.
struct WarmupCosineLr : DeepSpeedWarmup {
  std::optional<std::int64_t> total_num_steps;  // empty: auto
  double warmup_min_ratio = 0, cos_min_ratio = 1e-4;

  void fields(auto& f) {
    f("total_num_steps", total_num_steps, "The last step; auto: the run's.", required(), or_auto(),
      at_least(1));
    f("warmup_min_ratio", warmup_min_ratio, "The second step's ratio; the first has rate 0.", at_least(0));
    f("cos_min_ratio", cos_min_ratio, "The last ratio.", at_least(0));
    DeepSpeedWarmup::fields(f);
  }
  double rate(std::int64_t step, const Run&) const;
};

// To find the rate at which training diverges.
struct LrRangeTest {
  double lr_range_test_min_lr = 1e-3;
  std::int64_t lr_range_test_step_size = 2000;
  double lr_range_test_step_rate = 1;
  bool lr_range_test_staircase = false;

  void fields(auto& f) {
    f("lr_range_test_min_lr", lr_range_test_min_lr, "The first rate.", at_least(0));
    f("lr_range_test_step_size", lr_range_test_step_size, "Steps in which it grows once.", at_least(1));
    f("lr_range_test_step_rate", lr_range_test_step_rate, "By how much, as a fraction of the first rate.",
      at_least(0));
    f("lr_range_test_staircase", lr_range_test_staircase, "Grow at the end of those steps only.");
  }
  double rate(std::int64_t step, const Run&) const;
};

}  // namespace ft::schedules
