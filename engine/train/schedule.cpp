#include "engine/train/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace ft {
namespace {

// The factor on the peak rate, after the warm-up: x steps since its end, of `span` that are left.
double decay(const TrainingConfig& t, double x, double span, double warmup) {
  const double progress = x / std::max(1.0, span);
  const double cosine = 0.5 * (1 + std::cos(std::numbers::pi * progress));
  switch (t.lr_scheduler_type) {
    case LrScheduler::linear:
      return std::max(0.0, 1 - progress);
    case LrScheduler::cosine:
      return std::max(0.0, cosine);
    case LrScheduler::cosine_with_min_lr:
      return std::max(0.0, cosine * (1 - t.min_lr_ratio) + t.min_lr_ratio);
    case LrScheduler::polynomial: {  // power 1, down to 1e-7
      constexpr double kEnd = 1e-7;
      const double left = x > span ? 0 : 1 - progress;
      return ((t.learning_rate - kEnd) * left + kEnd) / t.learning_rate;
    }
    case LrScheduler::inverse_sqrt: {
      const double scale = warmup > 0 ? warmup : 10000;
      return 1 / std::sqrt((x + scale) / scale);
    }
    case LrScheduler::constant:
    case LrScheduler::constant_with_warmup:
      break;
  }
  return 1;
}

}  // namespace

double learning_rate(const TrainingConfig& t, std::int64_t step, std::int64_t total) {
  const std::int64_t warmup = t.lr_scheduler_type == LrScheduler::constant ? 0 : t.warmup(total);
  if (step < warmup) return t.learning_rate * static_cast<double>(step) / static_cast<double>(warmup);
  return t.learning_rate * decay(t, static_cast<double>(step - warmup), static_cast<double>(total - warmup),
                                 static_cast<double>(warmup));
}

}  // namespace ft
