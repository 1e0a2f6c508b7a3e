// The passes of a run on made-up batches of its largest shapes, for Ops that count: NullOps, TraceOps.
#pragma once
#include <algorithm>

#include "engine/model/model.h"
#include "engine/train/objectives/objective.h"

namespace ft {

Arena endless(Ops&);  // counts, and holds nothing

// Bytes of arenas at their fullest. In a pipeline's stage: `flight` of a pass in flight, `again` for what
// runs again.
struct Peaks {
  std::int64_t saved = 0, scratch = 0, flight = 0, again = 0;
  InputsHome* inputs = nullptr;  // where blocks' inputs wait for the backward pass, if not in memory

  void cover(const Arena& used, const Arena& temporary) {
    saved = std::max(saved, used.peak());
    scratch = std::max(scratch, temporary.peak());
  }
};

// The objective's passes on a model. Peaks grow.
struct Passes {
  Objective& objective;
  Policy policy, reference, critic;
  DType dtype;
  const Grid* grid;
};
void run_batch(const Passes&, Ops&, const BatchShape&, bool train, Peaks&);
// What policy and reference say of answers, and the critic expected of them.
void run_valuing(const Passes&, Ops&, const BatchShape&, Peaks&);
// As many tokens as there will be, after the longest past.
void run_generation(const Passes&, Ops&, const GenerationShape&, Peaks&);
// A reward model's.
void run_scoring(const Policy& scorer, Ops&, DType, const BatchShape&, Peaks&);

}  // namespace ft
