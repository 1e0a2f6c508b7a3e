// The order in which a stage of a pipeline computes the passes of a step, and exchanges states and gradients
// with its neighbours. Nothing is computed here.
//
// One chunk of the model on each rank: one forward, one backward (Narayanan et al., "Memory-Efficient
// Pipeline-Parallel DNN Training", ICML 2021). A stage begins with as many forward passes as there are stages
// above it. Then each is followed by the backward pass of the oldest micro-batch in flight.
//
// Several: the stages are interleaved (Narayanan et al., "Efficient Large-Scale Language Model Training on
// GPU Clusters Using Megatron-LM", SC 2021). With V chunks of the model on each of P ranks, rank s has the
// stages s, P + s, 2 P + s and so on of P V. P micro-batches go through all ranks' first chunks, then through
// the second, and so on, before the next P come; backward is the same from the last chunk to the first. All
// ranks keep one clock: in tick t rank s computes the forward pass t - s and the backward pass
// t - (V P - 1) - (P - 1 - s) of these orders, where there are such. Then gradients go down, and states go
// up, from each rank to the next, in a ring.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "engine/parallel/stage.h"

namespace ft {

struct PipelineShape {
  int stages = 1;  // ranks
  int chunks = 1;  // of the model, on each rank
  // In a step. With several chunks their number is a multiple of the stages, or one, which is for plans
  // alone: nobody could wait for the others then.
  std::int64_t micro_batches = 1;
};

// Forward passes before the first backward pass, if there are so many.
constexpr std::int64_t passes_ahead(const PipelineShape& p, int stage) {
  const std::int64_t above = p.stages - 1 - stage;
  return p.chunks == 1 ? above : std::int64_t{p.chunks - 1} * p.stages + 2 * above;
}
// How many passes are between forward and backward at once, of one chunk each.
constexpr std::int64_t in_flight(const PipelineShape& p, int stage) {
  return std::min(p.chunks * p.micro_batches, passes_ahead(p, stage) + 1);
}
// The part of a step that a stage waits for others, where all passes of a kind take equally long.
constexpr double bubble(const PipelineShape& p) {
  return static_cast<double>(p.stages - 1) / static_cast<double>(p.chunks * p.micro_batches + p.stages - 1);
}

// A pass, then an exchange: a result goes to one neighbour while what another pass needs comes from one. Each
// of the three may be missing.
struct StageTurn {
  StagePass computes, sends, receives;
};

std::vector<StageTurn> stage_schedule(const PipelineShape&, int stage);

}  // namespace ft
