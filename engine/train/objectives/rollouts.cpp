#include "engine/train/objectives/rollouts.h"

#include <cmath>
#include <numeric>
#include <span>

#include "engine/core/error.h"

namespace ft {
namespace {

using Numbers = std::span<const double>;

// mean_of and deviation skip NaN, because an answer may have no reward.
double mean_of(Numbers v) {
  double sum = 0, n = 0;
  for (const double x : v)
    if (!std::isnan(x)) sum += x, ++n;
  return sum / n;
}

// Divides by n - 1.
double deviation(Numbers v) {
  const double mean = mean_of(v);
  double squares = 0, n = 0;
  for (const double x : v)
    if (!std::isnan(x)) squares += (x - mean) * (x - mean), ++n;
  return n > 1 ? std::sqrt(squares / (n - 1)) : 0;
}

// Returns each answer's divisor: the deviation of its group's or of the batch's rewards.
std::vector<double> deviations(Numbers rewards, std::int64_t group, ScaleRewards scale) {
  if (scale == ScaleRewards::batch) return std::vector<double>(rewards.size(), deviation(rewards));
  std::vector<double> all;
  const auto n = static_cast<std::size_t>(group);
  for (std::size_t i = 0; i < rewards.size(); i += n)
    all.insert(all.end(), n, deviation(rewards.subspan(i, n)));
  return all;
}

}  // namespace

std::vector<double> advantages(const std::vector<double>& rewards, std::int64_t group, ScaleRewards scale) {
  const std::vector<double> by = deviations(rewards, group, scale);
  const auto n = static_cast<std::size_t>(group);
  std::vector<double> all;
  for (std::size_t i = 0; i < rewards.size(); ++i) {
    const double lead = rewards[i] - mean_of(Numbers(rewards).subspan(i / n * n, n));
    const double worth = scale == ScaleRewards::none ? lead : lead / (by[i] + 1e-4);
    all.push_back(std::isnan(worth) ? 0 : worth);
  }
  return all;
}

MeanAndDeviation mean_and_deviation(const std::vector<double>& numbers) {
  return {mean_of(numbers), deviation(numbers)};
}

std::vector<double> reward_figures(const std::vector<double>& rewards, std::int64_t group,
                                   ScaleRewards scale) {
  const std::vector<double> by = deviations(rewards, group, scale);
  double same = 0;
  for (const double d : by) same += d <= 1e-8;
  return {mean_of(rewards), deviation(rewards), same / static_cast<double>(by.size())};
}

Rollouts::Rollouts(const BatchSource& from, const RolloutOptions& options) : from_(from), options_(options) {
  const std::int64_t rows = options.rows * options.batches, batches = from.batches_per_epoch();
  if (rows % options.group != 0)
    throw UserError(Exit::config,
                    str("objective.num_generations: a step has ", rows, rows == 1 ? " row" : " rows",
                        " (micro-batch, accumulation and ranks), groups have ", options.group,
                        ": set training.per_device_train_batch_size to a multiple of ",
                        options.group / std::gcd(options.group, options.batches)));
  // Tells whether the last batch is full.
  const bool whole = batches > 0 && from.shape(0, batches - 1).compared == options.rows;
  steps_ = (whole ? batches : batches - 1) / options.batches;
  if (steps_ <= 0) throw UserError(Exit::input, str("the data has fewer rows than a step takes, ", rows));
}

Rollouts::Place Rollouts::place_of(std::int64_t i) const {
  const std::int64_t step = i / options_.batches, first = step / options_.uses * options_.batches;
  return {first, first + i % options_.batches, step % options_.uses};
}

Batch Rollouts::batch(std::int64_t epoch, std::int64_t i) const {
  const Place at = place_of(i);
  std::vector<double> rewards;
  Batch own;
  std::size_t begin = 0;
  for (std::int64_t b = at.first; b < at.first + options_.batches; ++b) {
    Batch other = from_.batch(epoch, b);
    if (b == at.index) begin = rewards.size();
    rewards.insert(rewards.end(), other.compared.value.begin(), other.compared.value.end());
    if (b == at.index) own = std::move(other);
  }
  const std::vector<double> worth = advantages(rewards, options_.group, options_.scale);
  for (std::size_t r = 0; r < own.compared.value.size(); ++r)
    own.compared.value[r] = static_cast<float>(worth[begin + r]);
  own.compared.uses = at.use;
  own.compared.used_again = at.use + 1 < options_.uses;
  if (at.use == 0) own.compared.figures = reward_figures(rewards, options_.group, options_.scale);
  return own;
}

BatchShape Rollouts::shape(std::int64_t epoch, std::int64_t i) const {
  return from_.shape(epoch, place_of(i).index);
}

}  // namespace ft
