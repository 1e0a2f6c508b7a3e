// What moving values and states costs a step, beside its arithmetic. All goes on at once, so that what takes
// longest is how long a step takes at least.
#pragma once
#include "app/plan/planned.h"
#include "app/plan/speeds.h"
#include "engine/files/json.h"

namespace ft {

struct StepCost {
  Moved moved;  // bytes, of each rank
  Speeds speeds;
  double files = 0, pcie = 0, arithmetic = 0;  // seconds; 0: unknown, or nothing is moved so
  // Seconds of the slower way of moving; 0: of one of them it is unknown.
  double moving() const;
  // What takes longest: "files", "pcie" or "arithmetic"; null: something is unknown.
  const char* bound() const;
  // From which on, the other unchanged, arithmetic takes longest; 0: unknown, or never.
  std::int64_t length = 0, batch = 0;
  const char* length_setting = "max_seq_length";
};

StepCost step_cost(const RunConfig&, const Planned&, Room, const Speeds&);

std::string as_text(const StepCost&);  // lines
void add_to(Json&, const StepCost&);

}  // namespace ft
