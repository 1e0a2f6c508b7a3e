// Chooses the samples of a run with a curriculum, as DeepSpeed 0.19.8's DeepSpeedDataSampler does. Whenever a
// difficulty changes, the samples that become easy enough by all metrics form a new cluster. Each sample of a
// step comes from a cluster that is drawn with a probability proportional to its size. A cluster gives all
// its samples in random order, then begins again in another order. Only the random numbers differ from
// DeepSpeed's.
#pragma once
#include <cstdint>
#include <vector>

#include "data/efficiency/difficulty.h"
#include "engine/core/random.h"

namespace ft {

class CurriculumSampler {
 public:
  // `per_step`: samples of a step, on all ranks together. Throws UserError (config) if step 1 has no sample
  // to train on.
  CurriculumSampler(std::vector<Difficulty> difficulties, std::int64_t per_step, std::uint64_t seed);

  // Returns an epoch's samples in the order of its steps, as many as the data has. The result depends on the
  // epoch only, but the next epoch is quicker to compute than any other.
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
  // State after `step_` steps, which are `epochs_` epochs.
  std::int64_t epochs_ = 0, step_ = 0;
  std::vector<std::int64_t> limits_;  // by metric
  std::vector<bool> joined_;          // by sample: it is in a cluster
  std::vector<Cluster> clusters_;
  std::vector<std::uint64_t> ends_;  // by cluster: number of samples in it and in the clusters before
};

}  // namespace ft
