#include "data/efficiency/sampler.h"

#include <algorithm>

#include "data/shuffle.h"
#include "engine/core/error.h"
#include "engine/core/require.h"

namespace ft {

CurriculumSampler::CurriculumSampler(std::vector<Difficulty> difficulties, std::int64_t per_step,
                                     std::uint64_t seed)
    : difficulties_(std::move(difficulties)), per_step_(per_step), random_(Random{seed}.with("curriculum")) {
  require(!difficulties_.empty() && per_step_ > 0, "no such curriculum");
  begin();
  grow();
  if (!clusters_.empty()) {
    begin();
    return;
  }
  std::string what = "data_efficiency: no sample is easy enough for the first step";
  for (const Difficulty& d : difficulties_) what += "; " + d.range();
  throw UserError(Exit::config, what + "; raise min_difficulty");
}

void CurriculumSampler::begin() {
  epochs_ = step_ = 0;
  limits_.clear();
  joined_.assign(static_cast<std::size_t>(difficulties_[0].samples()), false);
  clusters_.clear();
  ends_.clear();
}

// Adds a cluster of the samples that become easy enough for the next step.
void CurriculumSampler::grow() {
  std::vector<std::int64_t> limits;
  for (const Difficulty& d : difficulties_) limits.push_back(d.limit(step_ + 1));
  if (limits == limits_) return;
  limits_ = limits;
  Cluster cluster;
  for (std::size_t i = 0; i < joined_.size(); ++i) {
    const auto sample = static_cast<std::int64_t>(i);
    bool easy = !joined_[i];
    for (std::size_t m = 0; easy && m < limits.size(); ++m) easy = difficulties_[m].below(sample, limits[m]);
    if (!easy) continue;
    joined_[i] = true;
    cluster.samples.push_back(sample);
  }
  if (cluster.samples.empty()) return;
  shuffle(cluster, clusters_.size());
  ends_.push_back((ends_.empty() ? 0 : ends_.back()) + cluster.samples.size());
  clusters_.push_back(std::move(cluster));
}

void CurriculumSampler::shuffle(Cluster& cluster, std::size_t number) const {
  const Random random = random_.with("cluster").with(number).with(cluster.round);
  std::vector<std::int64_t> samples;
  for (const std::int64_t i : permutation(std::ssize(cluster.samples), random))
    samples.push_back(cluster.samples[static_cast<std::size_t>(i)]);
  cluster.samples = std::move(samples);
}

std::int64_t CurriculumSampler::take(std::size_t number) {
  Cluster& cluster = clusters_[number];
  if (cluster.next == cluster.samples.size()) {
    ++cluster.round;
    cluster.next = 0;
    shuffle(cluster, number);
  }
  return cluster.samples[cluster.next++];
}

std::vector<std::int64_t> CurriculumSampler::next_order() {
  const std::int64_t samples = std::ssize(joined_);
  std::vector<std::int64_t> order;
  while (std::ssize(order) < samples) {
    grow();
    const Random random = random_.with(static_cast<std::uint64_t>(++step_));
    const std::int64_t count = std::min(per_step_, samples - std::ssize(order));
    for (std::int64_t i = 0; i < count; ++i) {
      const Philox4 r = random.at(static_cast<std::uint64_t>(i));
      const std::uint64_t place = (std::uint64_t{r[0]} << 32 | r[1]) % ends_.back();
      const auto cluster = std::upper_bound(ends_.begin(), ends_.end(), place) - ends_.begin();
      order.push_back(take(static_cast<std::size_t>(cluster)));
    }
  }
  ++epochs_;
  return order;
}

std::vector<std::int64_t> CurriculumSampler::order(std::int64_t epoch) {
  if (epoch < epochs_) begin();
  while (epochs_ < epoch) next_order();
  return next_order();
}

}  // namespace ft
