// The samples of a run whose curriculum chooses them, as DeepSpeed 0.19.8's DeepSpeedDataSampler does:
// whenever a difficulty changes, the samples that become easy enough by all metrics are a new cluster. Each
// sample of a step comes from a cluster that is drawn with the chance of its size; a cluster gives its
// samples in random order, all of them before it begins again in another. Only the random numbers are ft's
// own.
#pragma once
#include <cstdint>
#include <vector>

#include "data/efficiency/difficulty.h"
#include "engine/core/random.h"

namespace ft {

class CurriculumSampler {
 public:
  // `per_step`: samples of a step, of all ranks. UserError(Exit::config) where step 1 has nothing to train
  // on.
  CurriculumSampler(std::vector<Difficulty> difficulties, std::int64_t per_step, std::uint64_t seed);

  // The samples of an epoch in the order of its steps, as many as there are. A function of the epoch, though
  // the next epoch is quicker to make than any other.
  std::vector<std::int64_t> order(std::int64_t epoch);

 private:
  struct Cluster {
    std::vector<std::int64_t> samples;  // in the order of this round
    std::size_t next = 0;
    std::uint64_t round = 0;
  };
  void begin();
  void grow();
  void shuffle(Cluster&, std::size_t number) const;
  std::int64_t take(std::size_t cluster);
  std::vector<std::int64_t> next_order();

  std::vector<Difficulty> difficulties_;
  std::int64_t per_step_;
  Random random_;
  // After `step_` steps, which are `epochs_` epochs.
  std::int64_t epochs_ = 0, step_ = 0;
  std::vector<std::int64_t> limits_;  // (metrics)
  std::vector<bool> joined_;          // (samples) it is in a cluster
  std::vector<Cluster> clusters_;
  std::vector<std::uint64_t> ends_;  // (clusters) the samples in it and in those before
};

}  // namespace ft
