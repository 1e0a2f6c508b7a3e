// Plans the points of a tuning space: which fit, and what each costs in known quantities.
#pragma once
#include <functional>

#include "app/tune/cost_model.h"
#include "app/tune/space.h"

namespace ft {

struct TuneCandidate {
  std::size_t point = 0;    // index into the space's points
  std::int64_t memory = 0;  // planned bytes of a rank
  int sharing = 1;          // ranks that share the device's memory
  Traits traits;
  std::int64_t device_memory() const { return memory * sharing; }
};

struct TuneCandidates {
  std::vector<TuneCandidate> fit;
  std::optional<std::size_t> start;  // index into `fit` of the unchanged configuration
  std::size_t too_large = 0;
  std::int64_t smallest = 0, there = 0;  // bytes of a rank: of the smallest plan; available
};

// Plans every point. Points that run the same become one (gradient_checkpointing auto, if it chooses all or
// no blocks). `progress` may throw to stop.
TuneCandidates plan_candidates(const TuneSpace&, int cores,
                               const std::function<void(std::int64_t, std::int64_t)>& progress);

}  // namespace ft
