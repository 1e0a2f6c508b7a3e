// The output of ft plan: memory per rank by category; with several ranks, all ZeRO stages side by side.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "app/plan/planned.h"
#include "app/plan/step_cost.h"

namespace ft {

struct PlannedStage {
  int stage = 0;
  Planned planned;
  std::int64_t longest = 0;  // max_seq_length that fits; 0: none, or unknown
};

struct PlanTable {
  std::vector<PlannedStage> stages;  // one, or all four
  std::size_t own = 0;               // the configured one among them
  int ranks = 1;
  GridShape grid;              // of them
  std::int64_t there = 0;      // bytes that a rank may take; 0: unknown
  std::int64_t positions = 0;  // tokens that the model was made for; 0: unknown
  std::int64_t accumulation = 1;
  bool choose_recomputed = false;  // gradient_checkpointing auto
  std::optional<StepCost> cost;    // of the configured stage; empty: nothing moves

  const PlannedStage& mine() const { return stages[own]; }
};

std::string as_text(const PlanTable&);
// The configured stage; with several ranks, all stages are under "stages".
std::string as_json(const PlanTable&);

}  // namespace ft
