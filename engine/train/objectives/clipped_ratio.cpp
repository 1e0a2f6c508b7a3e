#include "engine/train/objectives/clipped_ratio.h"

#include <algorithm>
#include <cmath>

namespace ft {

ClippedRatio::ClippedRatio(const ObjectiveConfig& c)
    : low_(c.low()), high_(c.high()), temperature_(c.temperature.value_or(1)) {}

std::vector<std::string> ClippedRatio::columns() const {
  return {"entropy", "clip_ratio/low_mean", "clip_ratio/high_mean", "clip_ratio/region_mean"};
}

double ClippedRatio::add(const Action& a, Verdict& v, Sums& sums) const {
  const double ratio = std::exp(a.ahead), plain = ratio * a.advantage,
               clipped = std::clamp(ratio, low_, high_) * a.advantage;
  v.loss -= a.weight * std::min(plain, clipped);
  sums.low += ratio < low_ && a.advantage < 0;
  sums.high += ratio > high_ && a.advantage > 0;
  return plain <= clipped ? -a.weight * plain : 0;
}

void check_clipped_ratio(const ObjectiveConfig& c, const Refuse& refuse) {
  require_rewards(c, refuse);
  if (c.beta == 0 && c.ref_model_name_or_path)
    refuse("objective.ref_model_name_or_path: has no effect with objective.beta=0");
  if (c.epsilon.value_or(0) > 1) refuse("objective.epsilon: is at most 1");
  check_clip_range(c, refuse);
}

}  // namespace ft
