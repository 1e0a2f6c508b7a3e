#include "data/efficiency/batches.h"

#include <algorithm>

#include "data/efficiency/schedule.h"
#include "engine/core/divide.h"
#include "engine/core/require.h"

namespace ft {
namespace {

// Keeps the first `length` ids of each sequence.
void truncate(std::vector<std::int32_t>& ids, std::vector<std::int32_t>& starts, std::int64_t length) {
  std::vector<std::int32_t> kept, kept_starts{0};
  for (std::size_t s = 0; s + 1 < starts.size(); ++s) {
    const auto begin = ids.begin() + starts[s];
    kept.insert(kept.end(), begin, begin + std::min<std::int64_t>(length, starts[s + 1] - starts[s]));
    kept_starts.push_back(static_cast<std::int32_t>(kept.size()));
  }
  ids = std::move(kept);
  starts = std::move(kept_starts);
}

// Returns the starts of sequences that keep at most `most` tokens each; empty if all tokens are kept.
std::vector<std::int32_t> kept_of(const std::vector<std::int32_t>& starts, std::int64_t most) {
  std::vector<std::int32_t> kept{0};
  for (std::size_t s = 1; s < starts.size(); ++s)
    kept.push_back(kept.back() +
                   static_cast<std::int32_t>(std::min<std::int64_t>(most, starts[s] - starts[s - 1])));
  if (starts.empty() || kept.back() == starts.back()) kept.clear();
  return kept;
}

}  // namespace

Batch truncated(const Batch& b, std::int64_t length) {
  Batch cut = b;
  truncate(cut.input_ids, cut.starts, length);
  std::vector<std::int32_t> starts = b.starts;
  truncate(cut.positions, starts, length);
  const bool pairs = !b.source_starts.empty();
  if (pairs) truncate(cut.source_ids, cut.source_starts, length);
  cut.target_rows.clear();
  cut.targets.clear();
  // A decoder's row predicts the token of the next row, which must be kept too; an encoder-decoder's row its
  // own token.
  const std::int64_t predicting = pairs ? length : length - 1;
  std::size_t s = 0;
  for (std::size_t t = 0; t < b.targets.size(); ++t) {
    while (b.target_rows[t] >= b.starts[s + 1]) ++s;
    const std::int32_t place = b.target_rows[t] - b.starts[s];
    if (place >= predicting) continue;
    cut.target_rows.push_back(cut.starts[s] + place);
    cut.targets.push_back(b.targets[t]);
  }
  return cut;
}

Batch reshaped(const Batch& b, std::int64_t length) {
  require(b.source_starts.empty(), "pairs are not cut into several");
  Batch cut = b;
  cut.starts = {0};
  cut.dataset_of.clear();
  for (std::size_t s = 0; s + 1 < b.starts.size(); ++s) {
    for (std::int64_t begin = b.starts[s]; begin < b.starts[s + 1]; begin += length) {
      cut.starts.push_back(
          static_cast<std::int32_t>(std::min<std::int64_t>(begin + length, b.starts[s + 1])));
      if (!b.dataset_of.empty()) cut.dataset_of.push_back(b.dataset_of[s]);
    }
  }
  for (std::int32_t& position : cut.positions) position = static_cast<std::int32_t>(position % length);
  cut.target_rows.clear();
  cut.targets.clear();
  for (std::size_t t = 0; t < b.targets.size(); ++t) {
    const std::int32_t row = b.target_rows[t];
    if (b.positions[static_cast<std::size_t>(row)] % length == length - 1)
      continue;  // the next token begins another sequence
    cut.target_rows.push_back(row);
    cut.targets.push_back(b.targets[t]);
  }
  return cut;
}

EfficientBatches::EfficientBatches(const BatchSource& from, const DataEfficiencyConfig& config,
                                   std::int64_t per_step)
    : from_(from),
      config_(config),
      per_step_(per_step),
      steps_per_epoch_(ceil_div(from.batches_per_epoch(), per_step)) {}

std::int64_t EfficientBatches::step_of(std::int64_t epoch, std::int64_t i) const {
  return epoch * steps_per_epoch_ + i / per_step_ + 1;
}

Batch EfficientBatches::batch(std::int64_t epoch, std::int64_t i) const {
  const CurriculumMetrics& m = config_.data_sampling.curriculum_learning.curriculum_metrics;
  const RandomLtdConfig& ltd = config_.data_routing.random_ltd;
  const std::int64_t step = step_of(epoch, i);
  Batch b = from_.batch(epoch, i);
  if (has_curriculum(config_)) {
    if (m.seqlen.given() && !chooses_samples(m.seqlen)) b = truncated(b, difficulty_at(m.seqlen, step));
    if (m.seqlen_reshape.given()) b = reshaped(b, difficulty_at(m.seqlen_reshape, step));
  }
  if (has_random_ltd(config_)) {
    const std::int64_t kept = kept_tokens_at(ltd.random_ltd_schedule, step);
    if (ltd.model_type == RandomLtdModel::encoder)
      b.kept_source_starts = kept_of(b.source_starts, kept);
    else
      b.kept_starts = kept_of(b.starts, kept);
  }
  return b;
}

BatchShape EfficientBatches::shape(std::int64_t epoch, std::int64_t i) const {
  return shape_of(batch(epoch, i));
}

std::vector<std::pair<std::string, double>> EfficientBatches::schedules(std::int64_t step) const {
  std::vector<std::pair<std::string, double>> all;
  const CurriculumMetrics& m = config_.data_sampling.curriculum_learning.curriculum_metrics;
  if (has_curriculum(config_))
    for (const auto& [name, metric] : m.all())
      if (metric->given()) all.emplace_back(name, static_cast<double>(difficulty_at(*metric, step)));
  const bool several = all.size() > 1;
  for (auto& [name, difficulty] : all) name = "curriculum/" + (several ? name : "difficulty");
  const RandomLtdScheduleConfig& kept = config_.data_routing.random_ltd.random_ltd_schedule;
  if (has_random_ltd(config_))
    all.emplace_back("random_ltd/kept_tokens", static_cast<double>(kept_tokens_at(kept, step)));
  return all;
}

}  // namespace ft
