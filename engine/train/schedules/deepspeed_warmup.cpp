// WarmupLR, WarmupDecayLR and WarmupCosineLR of DeepSpeed (runtime/lr_schedules.py), with its arguments'
// names and defaults; "auto" takes the run's value, as transformers' Trainer fills it in. DeepSpeed's engine
// steps a schedule after the optimizer, and a new schedule stands at iteration -1: step s (from 0) uses the
// rate of iteration s - 1.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>

#include "engine/core/rules.h"
#include "engine/train/schedules/made.h"

namespace ft::schedules {
namespace {

enum class WarmupType : std::uint8_t { log, linear };
constexpr auto words(WarmupType) {
  using enum WarmupType;
  return to_words<WarmupType>({{log, "log"}, {linear, "linear"}});
}

// The warm-up of all three: from 0 at iteration 0 to 1 at iteration max(2, warmup_num_steps).
struct DeepSpeedWarmup {
  std::optional<std::int64_t> warmup_num_steps = 1000;  // empty: auto
  WarmupType warmup_type = WarmupType::log;

  void fields(auto& f) {
    f("warmup_num_steps", warmup_num_steps, "Steps of the warm-up; auto: training.warmup_steps.", or_auto(),
      at_least(1));
    f("warmup_type", warmup_type, "Shape of the warm-up.");
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

}  // namespace

const ScheduleKind kWarmupLr{"WarmupLR", make<WarmupLr>};
const ScheduleKind kWarmupDecayLr{"WarmupDecayLR", make<WarmupDecayLr>};
const ScheduleKind kWarmupCosineLr{"WarmupCosineLR", make<WarmupCosineLr>};

}  // namespace ft::schedules
