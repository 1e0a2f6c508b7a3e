// A warm-up as transformers' schedules have it (optimization.py, get_scheduler), and a cosine. The schedules
// have transformers' names and defaults of arguments.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>

#include "engine/train/schedules/run.h"

namespace ft::schedules {

// 1 at progress 0; half a wave ends at 0.
inline double cosine(double cycles, double progress) {
  return 0.5 * (1 + std::cos(std::numbers::pi * cycles * 2 * progress));
}

inline double raised(double factor, double lowest) { return std::max(0.0, factor * (1 - lowest) + lowest); }

// Linear from 0 in the warm-up, then a factor of the peak: x steps since its end, of `span` that are left.
double warmed_up(std::int64_t step, const Run& run, auto factor) {
  if (step < run.warmup) return run.rate * static_cast<double>(step) / static_cast<double>(run.warmup);
  const auto x = static_cast<double>(step - run.warmup), span = static_cast<double>(run.total - run.warmup);
  return run.rate * factor(x, std::max(1.0, span));
}

}  // namespace ft::schedules
