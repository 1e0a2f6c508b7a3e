// The order in which a pipeline's stage runs the passes of a step, and exchanges states and gradients with
// its neighbours. This code computes no passes.
//
// With one chunk of the model on each rank: one forward, one backward (Narayanan et al., "Memory-Efficient
// Pipeline-Parallel DNN Training", ICML 2021). A stage begins with as many forward passes as there are stages
// above it. Then each further one is followed by the backward pass of the oldest micro-batch in flight.
//
// With several chunks: the stages are interleaved (Narayanan et al., "Efficient Large-Scale Language Model
// Training on GPU Clusters Using Megatron-LM", SC 2021). With V chunks of the model on each of P ranks, rank
// s has the stages s, P + s, 2 P + s and so on of P V. P micro-batches go through all ranks' first chunks,
// then through the second, and so on, before the next P come; backward is the same from the last chunk to the
// first. All ranks keep one clock: in tick t rank s runs forward pass t - s and backward pass t - (V P - 1) -
// (P - 1 - s) of these orders, if they exist. Then gradients go down, and states go up, from each rank to the
// next, in a ring.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "engine/parallel/stage.h"

namespace ft {

struct PipelineShape {
  int stages = 1;  // ranks
  int chunks = 1;  // on each rank
  // Number in a step. With several chunks it is a multiple of the stages, or 1, for plans only: in a run the
  // ranks would wait for each other forever.
  std::int64_t micro_batches = 1;
};

// Returns the number of forward passes before the first backward pass, if there are so many.
constexpr std::int64_t passes_ahead(const PipelineShape& p, int stage) {
  const std::int64_t above = p.stages - 1 - stage;
  return p.chunks == 1 ? above : std::int64_t{p.chunks - 1} * p.stages + 2 * above;
}
// Returns the largest number of passes between forward and backward, each on one chunk.
constexpr std::int64_t in_flight(const PipelineShape& p, int stage) {
  return std::min(p.chunks * p.micro_batches, passes_ahead(p, stage) + 1);
}
// Returns the share of a step that a stage waits for others, if all passes of a kind take equally long.
constexpr double bubble(const PipelineShape& p) {
  return static_cast<double>(p.stages - 1) / static_cast<double>(p.chunks * p.micro_batches + p.stages - 1);
}

// A pass, then an exchange: the result of one pass goes to a neighbour, and the input of another pass comes
// from a neighbour. Each of the three may be missing.
struct StageTurn {
  StagePass computes, sends, receives;
};

std::vector<StageTurn> stage_schedule(const PipelineShape&, int stage);

}  // namespace ft
