// Runs a run's passes on made-up batches of its largest shapes, with Ops that count: NullOps, TraceOps.
#pragma once
#include <algorithm>
#include <list>

#include "engine/layers/attention/kv_cache.h"
#include "engine/model/model.h"
#include "engine/train/objectives/objective.h"

namespace ft {

Arena endless(Ops&);  // counts bytes, and holds no memory

// Peak bytes of the arenas. In a pipeline's stage, `flight` is the peak of one pass in flight, `again` of
// recomputation.
struct Peaks {
  std::int64_t saved = 0, scratch = 0, flight = 0, again = 0;
  InputsHome* inputs = nullptr;  // place of blocks' inputs until the backward pass, if not in memory

  void cover(const Arena& used, const Arena& temporary) {
    saved = std::max(saved, used.peak());
    scratch = std::max(scratch, temporary.peak());
  }
};

// Made-up batches of the shapes that a plan's passes use. Each is made once: a batch of a million tokens
// takes longer to fill than its passes take.
class MadeUpBatches {
 public:
  // Returns a batch with ids that are never read, and with targets from row `first_target` on. It remains
  // valid.
  const Batch& of(const BatchShape&, std::int64_t first_target = 0);

 private:
  struct Made {
    BatchShape shape;
    std::int64_t first_target;
    Batch batch;
  };
  std::list<Made> made_;
};

// Models and objective of the passes. The functions below raise the peaks.
struct Passes {
  Objective& objective;
  Policy policy, reference, critic;
  DType dtype;
  const Grid* grid;
  MadeUpBatches& batches;
};
void run_batch(const Passes&, Ops&, const BatchShape&, bool train, Peaks&);
// Runs the passes that compute log-probabilities of answers under policy and reference, and the critic's
// values.
void run_valuing(const Passes&, Ops&, const BatchShape&, Peaks&);
// Generates as many tokens at once as a run will, after the longest context.
void run_generation(const Passes&, Ops&, const GenerationShape&, Peaks&);
// Runs a reward model's pass.
void run_scoring(const Policy& scorer, Ops&, DType, const BatchShape&, Peaks&);

}  // namespace ft
