#include "data/efficiency/schedule.h"

#include <algorithm>
#include <cmath>

#include "engine/core/divide.h"

namespace ft {

bool has_curriculum(const DataEfficiencyConfig& c) {
  return c.enabled && c.data_sampling.enabled && c.data_sampling.curriculum_learning.enabled;
}

bool has_random_ltd(const DataEfficiencyConfig& c) {
  return c.enabled && c.data_routing.enabled && c.data_routing.random_ltd.enabled;
}

bool chooses_samples(const CurriculumMetricConfig& seqlen) {
  return seqlen.clustering_type == ClusteringType::schedule_based;
}

bool chooses_samples(const CurriculumMetrics& m) {
  return chooses_samples(m.seqlen) || m.vocabularyrarity.given();
}

std::int64_t grown(double t, std::int64_t total, double degree, std::int64_t low, std::int64_t high,
                   std::int64_t unit) {
  const double share = std::pow(t / static_cast<double>(total), 1 / degree);
  const double value = share * static_cast<double>(high - low) + static_cast<double>(low);
  // All values from high + unit on become high.
  const auto whole = static_cast<std::int64_t>(std::floor(std::min(value, static_cast<double>(high + unit))));
  return std::min(whole - whole % unit, high);
}

std::int64_t difficulty_at(const CurriculumMetricConfig& m, std::int64_t step) {
  const std::int64_t low = *m.min_difficulty, high = *m.max_difficulty;
  const CurriculumScheduleConfig& c = m.schedule_config;
  if (low == high) return high;
  if (*m.schedule_type == CurriculumSchedule::fixed_discrete) {
    std::size_t i = 0;
    while (i < c.max_step.size() && step > c.max_step[i] && c.difficulty[i] < high) ++i;
    return c.difficulty[i];
  }
  const double degree = *m.schedule_type == CurriculumSchedule::fixed_root ? *c.root_degree : 1;
  const std::int64_t unit = *c.difficulty_step;
  const std::int64_t now =
      grown(static_cast<double>(step), *c.total_curriculum_step, degree, low, high, unit);
  return std::min(std::max(now, round_up(low, unit)), high);
}

std::int64_t kept_tokens_at(const RandomLtdScheduleConfig& s, std::int64_t step) {
  if (s.min_value == s.max_value) return s.max_value;
  return grown(static_cast<double>(step - 1), s.schedule_config.require_steps, 1, s.min_value, s.max_value,
               s.schedule_config.seq_per_step);
}

}  // namespace ft
