#include "data/efficiency/difficulty.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "data/efficiency/schedule.h"
#include "engine/core/error.h"

namespace ft {
namespace {

// Returns the target of an encoder-decoder's sample; empty for decoders.
std::span<const std::int32_t> target_of(const Dataset& data, std::int64_t sample) {
  return data.seq2seq() ? data[sample].labels : std::span<const std::int32_t>{};
}

// Returns the rank of each sample in the order of values; equal values keep the order of the data.
std::vector<std::int64_t> places(const std::vector<std::int64_t>& values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  std::vector<std::int64_t> place(values.size());
  for (std::size_t i = 0; i < order.size(); ++i) place[order[i]] = static_cast<std::int64_t>(i);
  return place;
}

}  // namespace

std::vector<std::int64_t> sequence_lengths(const Dataset& data) {
  std::vector<std::int64_t> lengths;
  for (std::int64_t i = 0; i < data.size(); ++i)
    lengths.push_back(std::max(std::ssize(data[i].input_ids), std::ssize(target_of(data, i))));
  return lengths;
}

std::vector<std::int64_t> vocabulary_rarity(const Dataset& data) {
  std::vector<std::int64_t> counts;
  std::int64_t all = 0;
  const auto count = [&](std::span<const std::int32_t> ids) {
    for (const std::int32_t id : ids) {
      if (id == kIgnored) continue;
      const auto i = static_cast<std::size_t>(id);
      if (i >= counts.size()) counts.resize(i + 1);
      ++counts[i];
      ++all;
    }
  };
  for (std::int64_t i = 0; i < data.size(); ++i) {
    count(data[i].input_ids);
    count(target_of(data, i));
  }
  std::vector<double> rarity;
  for (const std::int64_t n : counts)
    rarity.push_back(n == 0 ? 0 : -std::log(static_cast<double>(n) / static_cast<double>(all)));
  std::vector<std::int64_t> sums;
  for (std::int64_t i = 0; i < data.size(); ++i) {
    double sum = 0;
    for (const auto ids : {data[i].input_ids, target_of(data, i)})
      for (const std::int32_t id : ids) sum += id == kIgnored ? 0 : rarity[static_cast<std::size_t>(id)];
    sums.push_back(static_cast<std::int64_t>(sum));
  }
  return sums;
}

Difficulty::Difficulty(std::string name, const CurriculumMetricConfig& schedule,
                       std::vector<std::int64_t> values)
    : name_(std::move(name)),
      schedule_(schedule),
      percentile_(schedule.difficulty_type == DifficultyType::percentile),
      values_(std::move(values)) {
  if (values_.empty()) return;
  const auto [least, most] = std::minmax_element(values_.begin(), values_.end());
  least_ = *least;
  most_ = *most;
  if (percentile_) values_ = places(values_);
}

std::int64_t Difficulty::limit(std::int64_t step) const {
  const std::int64_t now = difficulty_at(schedule_, step), most = *schedule_.max_difficulty;
  if (!percentile_) return now + 1;
  return now == most ? samples() : samples() / most * now;
}

std::int64_t Difficulty::never() const {
  if (percentile_) return 0;
  return std::count_if(values_.begin(), values_.end(),
                       [&](std::int64_t v) { return v > *schedule_.max_difficulty; });
}

std::string Difficulty::range() const {
  if (percentile_)
    return str(name_, ": step 1 allows ", limit(1), " of ", samples(), " samples, ",
               difficulty_at(schedule_, 1), " of ", *schedule_.max_difficulty, " percentiles");
  return str(name_, ": step 1 allows ", limit(1) - 1, ", and samples have ", least_, " to ", most_);
}

std::vector<Difficulty> difficulties(const CurriculumMetrics& metrics, const Dataset& data) {
  std::vector<Difficulty> all;
  if (chooses_samples(metrics.seqlen)) all.emplace_back("seqlen", metrics.seqlen, sequence_lengths(data));
  if (metrics.vocabularyrarity.given())
    all.emplace_back("vocabularyrarity", metrics.vocabularyrarity, vocabulary_rarity(data));
  return all;
}

}  // namespace ft
