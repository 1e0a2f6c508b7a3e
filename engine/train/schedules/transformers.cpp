#include "engine/train/schedules/transformers.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "engine/core/error.h"

namespace ft::schedules {
namespace {

// 1 at progress 0; half a wave ends at 0.
double cosine(double cycles, double progress) {
  return 0.5 * (1 + std::cos(std::numbers::pi * cycles * 2 * progress));
}

double raised(double factor, double lowest) { return std::max(0.0, factor * (1 - lowest) + lowest); }

// Linear from 0 in the warm-up, then a factor of the peak: x steps since its end, of `span` that are left.
double warmed_up(std::int64_t step, const Run& run, auto factor) {
  if (step < run.warmup) return run.rate * static_cast<double>(step) / static_cast<double>(run.warmup);
  const auto x = static_cast<double>(step - run.warmup), span = static_cast<double>(run.total - run.warmup);
  return run.rate * factor(x, std::max(1.0, span));
}

}  // namespace

double ConstantWithWarmup::rate(std::int64_t step, const Run& run) const {
  return warmed_up(step, run, [](double, double) { return 1.0; });
}

double Linear::rate(std::int64_t step, const Run& run) const {
  return warmed_up(step, run, [](double x, double span) { return std::max(0.0, 1 - x / span); });
}

double Cosine::rate(std::int64_t step, const Run& run) const {
  return warmed_up(step, run,
                   [&](double x, double span) { return std::max(0.0, cosine(num_cycles, x / span)); });
}

double CosineWithRestarts::rate(std::int64_t step, const Run& run) const {
  return warmed_up(step, run, [&](double x, double span) {
    return x >= span ? 0 : std::max(0.0, cosine(0.5, std::fmod(num_cycles * (x / span), 1)));
  });
}

std::string CosineWithMinLr::mistake(const Run& run) const {
  if (min_lr && min_lr_rate) return "min_lr and min_lr_rate are both given; give one of them";
  if (run.min_lr_ratio > 0 && (min_lr || min_lr_rate))
    return str(min_lr ? "min_lr" : "min_lr_rate",
               " and training.min_lr_ratio are both given; give one of them");
  return "";
}

double CosineWithMinLr::lowest(const Run& run) const {
  return min_lr ? *min_lr / run.rate : min_lr_rate.value_or(run.min_lr_ratio);
}

double CosineWithMinLr::rate(std::int64_t step, const Run& run) const {
  return warmed_up(step, run,
                   [&](double x, double span) { return raised(cosine(num_cycles, x / span), lowest(run)); });
}

// One step ahead of CosineWithMinLr: no step has rate 0.
double CosineWarmupWithMinLr::rate(std::int64_t step, const Run& run) const {
  const auto at = static_cast<double>(step), warmup = static_cast<double>(run.warmup);
  if (step >= run.warmup)
    return warmed_up(step, run, [&](double x, double span) {
      return raised(cosine(num_cycles, (x + 1) / span), lowest(run));
    });
  if (!warmup_lr_rate) return run.rate * ((at + 1) / warmup);
  return run.rate * (*warmup_lr_rate + (1 - *warmup_lr_rate) * at / std::max(1.0, warmup - 1));
}

std::string Polynomial::mistake(const Run& run) const {
  if (lr_end < run.rate) return "";
  return str("lr_end ", lr_end, " is not below training.learning_rate ", run.rate);
}

double Polynomial::rate(std::int64_t step, const Run& run) const {
  return warmed_up(step, run, [&](double x, double span) {
    const double left = x > span ? 0 : 1 - x / span;
    return ((run.rate - lr_end) * std::pow(left, power) + lr_end) / run.rate;
  });
}

double InverseSqrt::rate(std::int64_t step, const Run& run) const {
  const auto scale = static_cast<double>(timescale.value_or(run.warmup > 0 ? run.warmup : 10000));
  return warmed_up(step, run, [&](double x, double) { return 1 / std::sqrt((x + scale) / scale); });
}

double WarmupStableDecay::rate(std::int64_t step, const Run& run) const {
  const std::int64_t stable = num_stable_steps.value_or(run.total - run.warmup - num_decay_steps);
  const auto part = [&](std::int64_t begin, std::int64_t steps) {
    return static_cast<double>(step - begin) / static_cast<double>(std::max<std::int64_t>(1, steps));
  };
  if (step < run.warmup) {
    const double x = part(0, run.warmup);
    const double factor = warmup_type == Ramp::linear   ? x
                          : warmup_type == Ramp::cosine ? 0.5 * (1 - std::cos(std::numbers::pi * x))
                                                        : 1 - std::sqrt(1 - x);
    return run.rate * raised(factor, min_lr_ratio);
  }
  if (step < run.warmup + stable) return run.rate;
  if (step >= run.warmup + stable + num_decay_steps) return run.rate * min_lr_ratio;
  const double x = part(run.warmup + stable, num_decay_steps);
  const double factor = decay_type == Ramp::linear   ? 1 - x
                        : decay_type == Ramp::cosine ? cosine(num_cycles, x)
                                                     : 1 - std::sqrt(x);
  return run.rate * raised(factor, min_lr_ratio);
}

}  // namespace ft::schedules
