// Finds mistakes in the settings of data efficiency, and names the setting.
#include <algorithm>
#include <initializer_list>
#include <set>
#include <utility>

#include "data/efficiency/schedule.h"
#include "engine/core/error.h"

namespace ft {
namespace {

using Refuse = std::function<void(const std::string&)>;
using Parts = std::initializer_list<std::pair<bool, const char*>>;  // given, name

const std::string kMetrics = "data_efficiency.data_sampling.curriculum_learning.curriculum_metrics";

// Requires all of `needed`, and none of `useless`.
void check_parts(const std::string& at, const char* schedule, Parts needed, Parts useless,
                 const Refuse& refuse) {
  for (const auto& [given, name] : needed)
    if (!given) refuse(str(at, ".", name, ": missing; ", schedule, " needs it"));
  for (const auto& [given, name] : useless)
    if (given) refuse(str(at, ".", name, ": has no effect with schedule_type ", schedule, "; leave it out"));
}

void check_schedule(const CurriculumMetricConfig& m, const std::string& at, const Refuse& refuse) {
  const CurriculumScheduleConfig& c = m.schedule_config;
  const char* name = name_of(*m.schedule_type);
  const std::pair total{c.total_curriculum_step.has_value(), "total_curriculum_step"},
      unit{c.difficulty_step.has_value(), "difficulty_step"},
      degree{c.root_degree.has_value(), "root_degree"}, difficulty{!c.difficulty.empty(), "difficulty"},
      last{!c.max_step.empty(), "max_step"};
  switch (*m.schedule_type) {
    case CurriculumSchedule::fixed_linear:
      return check_parts(at, name, {total, unit}, {degree, difficulty, last}, refuse);
    case CurriculumSchedule::fixed_root:
      return check_parts(at, name, {total, unit, degree}, {difficulty, last}, refuse);
    case CurriculumSchedule::fixed_discrete:
      check_parts(at, name, {difficulty, last}, {total, unit, degree}, refuse);
  }
  if (c.difficulty.size() != c.max_step.size() + 1)
    refuse(str(at, ": ", c.difficulty.size(), " in difficulty and ", c.max_step.size(),
               " in max_step; the last difficulty has no last step, so max_step has one less"));
  if (std::adjacent_find(c.max_step.begin(), c.max_step.end(), std::greater_equal<>()) != c.max_step.end())
    refuse(at + ".max_step: each must be larger than the one before");
}

void check_metric(const CurriculumMetricConfig& m, const std::string& name, const Refuse& refuse) {
  const std::string at = kMetrics + "." + name;
  if (!m.min_difficulty) refuse(at + ".min_difficulty: missing");
  if (!m.max_difficulty) refuse(at + ".max_difficulty: missing");
  if (!m.schedule_type) refuse(at + ".schedule_type: missing: fixed_linear, fixed_root or fixed_discrete");
  if (*m.min_difficulty > *m.max_difficulty)
    refuse(str(at, ".min_difficulty: ", *m.min_difficulty, " is above max_difficulty ", *m.max_difficulty));
  check_schedule(m, at + ".schedule_config", refuse);
}

// Checks a metric that cuts samples.
void check_cutting(const CurriculumMetricConfig& m, const std::string& name, const Refuse& refuse) {
  const std::string at = kMetrics + "." + name;
  if (m.difficulty_type == DifficultyType::percentile)
    refuse(at + ".difficulty_type: samples are cut to a number of tokens, not to a percentile; set value");
  if (m.clustering_type == ClusteringType::schedule_based)
    refuse(at + ".clustering_type: samples are cut, not chosen; set single_cluster");
}

void check_curriculum(const DataEfficiencyConfig& c, const Refuse& refuse) {
  const CurriculumMetrics& m = c.data_sampling.curriculum_learning.curriculum_metrics;
  for (const auto& [name, metric] : m.all())
    if (metric->given()) check_metric(*metric, name, refuse);
  if (!chooses_samples(m.seqlen)) check_cutting(m.seqlen, "seqlen", refuse);
  check_cutting(m.seqlen_reshape, "seqlen_reshape", refuse);
  if (m.vocabularyrarity.clustering_type == ClusteringType::single_cluster)
    refuse(kMetrics + ".vocabularyrarity.clustering_type: samples are chosen, not cut; set schedule_based");
  if (m.seqlen.given() && !chooses_samples(m.seqlen) && m.seqlen_reshape.given())
    refuse(kMetrics + ": seqlen and seqlen_reshape cut the same samples; give one of them");
  if (!m.seqlen.given() && !m.seqlen_reshape.given() && !m.vocabularyrarity.given())
    refuse(kMetrics + ": name a metric of difficulty: seqlen, seqlen_reshape or vocabularyrarity");
}

void check_random_ltd(const RandomLtdConfig& c, const Refuse& refuse) {
  const std::string at = "data_efficiency.data_routing.random_ltd.";
  const RandomLtdScheduleConfig& s = c.random_ltd_schedule;
  const std::set layers(c.random_ltd_layer_id.begin(), c.random_ltd_layer_id.end());
  if (std::ssize(c.random_ltd_layer_id) != c.random_ltd_layer_num)
    refuse(str(at, "random_ltd_layer_num: ", c.random_ltd_layer_num, ", and random_ltd_layer_id names ",
               c.random_ltd_layer_id.size()));
  if (layers.size() != c.random_ltd_layer_id.size()) refuse(at + "random_ltd_layer_id: names a layer twice");
  if (s.min_value > s.max_value)
    refuse(str(at, "random_ltd_schedule.min_value: ", s.min_value, " is above max_value ", s.max_value));
  if (kept_tokens_at(s, 1) == 0)
    refuse(str(at, "random_ltd_schedule.min_value: the first step would keep no token: ", s.min_value,
               ", rounded down to a multiple of seq_per_step ", s.schedule_config.seq_per_step));
}

}  // namespace

void check(const DataEfficiencyConfig& c, const Refuse& refuse) {
  if (has_curriculum(c)) check_curriculum(c, refuse);
  if (has_random_ltd(c)) check_random_ltd(c.data_routing.random_ltd, refuse);
}

}  // namespace ft
