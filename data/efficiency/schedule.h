// Schedules of the samples' difficulty (DeepSpeed 0.19.8's CurriculumScheduler) and of the tokens that
// random-LTD keeps.
#pragma once
#include <functional>
#include <string>

#include "data/efficiency/config.h"

namespace ft {

bool has_curriculum(const DataEfficiencyConfig&);
bool has_random_ltd(const DataEfficiencyConfig&);

// Returns true if a metric, or any of them, chooses samples; the other metrics cut them.
bool chooses_samples(const CurriculumMetricConfig& seqlen);
bool chooses_samples(const CurriculumMetrics&);

// Returns a number that grows with the steps t, from `low` to `high` after `total` steps, in multiples of
// `unit`:
//   min(high, floor_unit(floor((t / total)^(1 / degree) (high - low) + low)))
std::int64_t grown(double t, std::int64_t total, double degree, std::int64_t low, std::int64_t high,
                   std::int64_t unit);

// Returns the difficulty in step n = 1, 2, ... fixed_linear and fixed_root are never below the least multiple
// of difficulty_step that is at least min_difficulty. After reaching max_difficulty it stays there. The
// settings must have been checked.
std::int64_t difficulty_at(const CurriculumMetricConfig&, std::int64_t step);

// Returns the tokens of each sequence that random-LTD keeps in step n = 1, 2, ..., by DeepSpeed's
// RandomLTDScheduler, which counts from 0.
std::int64_t kept_tokens_at(const RandomLtdScheduleConfig&, std::int64_t step);

// Checks rules between several settings. `refuse` gets each mistake and does not return.
void check(const DataEfficiencyConfig&, const std::function<void(const std::string&)>& refuse);

}  // namespace ft
