// The output of ft plan: memory per rank by category; with several ranks, a column for each ZeRO stage.
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
  std::int64_t longest = 0;  // longest max_seq_length that fits; 0: none, or unknown
};

struct PlanTable {
  std::vector<PlannedStage> stages;  // one, or all four
  std::size_t own = 0;               // index of the configured stage
  int ranks = 1;
  GridShape grid;              // arrangement of the ranks
  std::int64_t there = 0;      // bytes that a rank may take; 0: unknown
  std::int64_t host = 0;       // for a GPU: bytes of host memory that a rank may take; 0: unknown
  std::int64_t positions = 0;  // positions of the model; 0: unknown
  std::int64_t accumulation = 1;
  bool choose_recomputed = false;      // gradient_checkpointing auto
  bool waits_for_checkpoints = false;  // there is no memory to write them beside training
  std::optional<StepCost> cost;        // cost of the configured stage; empty: nothing is moved

  const PlannedStage& mine() const { return stages[own]; }
};

std::string as_text(const PlanTable&);
// Returns the configured stage as JSON; with several ranks, all stages under "stages".
std::string as_json(const PlanTable&);

}  // namespace ft
