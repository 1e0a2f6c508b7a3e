// A stage's part of a step: one forward, one backward (Narayanan et al., "Memory-Efficient Pipeline-Parallel
// DNN Training", ICML 2021; without interleaving, as in Megatron-LM, SC 2021). A stage begins with as many
// forward passes as there are stages above it. Then each is followed by the backward pass of the oldest
// micro-batch in flight. With m micro-batches and P stages that take equally long, (P - 1) / (m + P - 1) of
// the time is waited.
#pragma once
#include <functional>

#include "engine/nn/model.h"

namespace ft {

// How many of a step's m micro-batches are between forward and backward at once.
constexpr std::int64_t in_flight(int stage, int stages, std::int64_t m) {
  return std::min<std::int64_t>(m, stages - stage);
}

// The part of a step that a stage waits for others.
constexpr double bubble(int stages, std::int64_t m) {
  return static_cast<double>(stages - 1) / static_cast<double>(m + stages - 1);
}

struct StageStep {
  Model& model;
  ParameterStore& store;
  Ctx& context;  // of the run; with in_flight() - 1 arenas more
  StageLoss loss;
  std::int64_t micro_batches = 1;
  // Makes one, and what of its Ctx is its own.
  std::function<Batch(std::int64_t, Ctx&)> take;
};

// All stages call it together, with the same micro-batches.
void run_stage(const StageStep&);

}  // namespace ft
