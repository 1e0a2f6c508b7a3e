// Answers that a policy gave, as GRPO trains on them: what each is worth beside the others of its prompt, and
// how often they are used.
#pragma once
#include <vector>

#include "engine/core/batch.h"
#include "engine/train/objectives/config.h"

namespace ft {

struct RolloutOptions {
  std::int64_t group = 8;    // answers to one prompt, which lie together
  std::int64_t rows = 1;     // of a micro-batch
  std::int64_t batches = 1;  // micro-batches of a step, of all ranks: what was generated at once
  std::int64_t uses = 1;     // steps in a row for each of them
  ScaleRewards scale = ScaleRewards::group;
};

// The batches of another source, whose values are rewards, step by step: those that make up whole steps, each
// step `uses` times. Values become advantages.
class Rollouts : public BatchSource {
 public:
  // Keeps a reference. UserError (exit 2) where groups do not fill a step, (exit 3) where the data does not.
  Rollouts(const BatchSource&, const RolloutOptions&);

  std::int64_t batches_per_epoch() const override { return steps_ * options_.uses * options_.batches; }
  Batch batch(std::int64_t epoch, std::int64_t i) const override;
  BatchShape shape(std::int64_t epoch, std::int64_t i) const override;

 private:
  struct Place {
    std::int64_t first = 0, index = 0, use = 0;  // the step's first batch, this one, uses before
  };
  Place place_of(std::int64_t i) const;

  const BatchSource& from_;
  RolloutOptions options_;
  std::int64_t steps_ = 0;
};

// (reward - the group's mean) / (deviation + 1e-4), of answers by groups; 0 for one without a reward (NaN),
// which does not count among the others.
std::vector<double> advantages(const std::vector<double>& rewards, std::int64_t group, ScaleRewards);
// Over the numbers that are not NaN; the deviation divides by n - 1.
struct MeanAndDeviation {
  double mean = 0, deviation = 0;
};
MeanAndDeviation mean_and_deviation(const std::vector<double>& numbers);
// As TRL logs them: the mean reward, the deviation of all, the share of groups without any deviation.
std::vector<double> reward_figures(const std::vector<double>& rewards, std::int64_t group, ScaleRewards);

}  // namespace ft
