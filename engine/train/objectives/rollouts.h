// Batches of a policy's given answers, as GRPO trains on them: computes advantages within a prompt's answers,
// and uses each step's answers several times.
#pragma once
#include <vector>

#include "engine/core/batch.h"
#include "engine/train/objectives/kind.h"

namespace ft {

struct RolloutOptions {
  std::int64_t group = 8;    // answers to one prompt, which are neighbouring rows
  std::int64_t rows = 1;     // in a micro-batch
  std::int64_t batches = 1;  // micro-batches of a step, on all ranks together: generated at once
  std::int64_t uses = 1;     // consecutive steps with the same answers
  ScaleRewards scale = ScaleRewards::group;
};

// Takes the batches of another source, whose values are rewards, as far as they fill steps. Each step is used
// `uses` times, and rewards become advantages.
class Rollouts : public BatchSource {
 public:
  // Keeps a reference to the source. Throws UserError (config) if groups do not fill a step, and UserError
  // (input) if the data does not.
  Rollouts(const BatchSource&, const RolloutOptions&);

  std::int64_t batches_per_epoch() const override { return steps_ * options_.uses * options_.batches; }
  Batch batch(std::int64_t epoch, std::int64_t i) const override;
  BatchShape shape(std::int64_t epoch, std::int64_t i) const override;

 private:
  struct Place {
    std::int64_t first = 0, index = 0, use = 0;  // the step's first batch, this batch, earlier uses
  };
  Place place_of(std::int64_t i) const;

  const BatchSource& from_;
  RolloutOptions options_;
  std::int64_t steps_ = 0;
};

// Returns (reward - the group's mean) / (deviation + 1e-4) of each answer. An answer without a reward (NaN)
// gets 0, and the others are computed without it.
std::vector<double> advantages(const std::vector<double>& rewards, std::int64_t group, ScaleRewards);
// Mean and deviation of the numbers that are not NaN; the deviation divides by n - 1.
struct MeanAndDeviation {
  double mean = 0, deviation = 0;
};
MeanAndDeviation mean_and_deviation(const std::vector<double>& numbers);
// Returns TRL's figures: the mean reward, the deviation of all rewards, the share of groups without
// deviation.
std::vector<double> reward_figures(const std::vector<double>& rewards, std::int64_t group, ScaleRewards);

}  // namespace ft
