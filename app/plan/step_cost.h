// The time of a step for moving offloaded values and states, and for arithmetic. All of them run at the same
// time, so a step takes at least as long as the slowest.
#pragma once
#include "app/plan/planned.h"
#include "app/plan/speeds.h"
#include "engine/files/json.h"

namespace ft {

struct StepCost {
  Moved moved;  // bytes that each rank moves
  Speeds speeds;
  double files = 0, pcie = 0, arithmetic = 0;  // seconds; 0: unknown, or nothing is moved
  // Returns the seconds of the slower transfer, files or PCIe; 0: the speed of one is unknown.
  double moving() const;
  // Returns the slowest of "files", "pcie" and "arithmetic"; null: one of them is unknown.
  const char* bound() const;
  // Sequence length, and batch size, from which on arithmetic is the slowest if the other stays; 0: unknown,
  // or never.
  std::int64_t length = 0, batch = 0;
  const char* length_setting = "max_seq_length";
};

StepCost step_cost(const RunConfig&, const Planned&, Room, const Speeds&);

std::string as_text(const StepCost&);  // several lines
void add_to(Json&, const StepCost&);

}  // namespace ft
