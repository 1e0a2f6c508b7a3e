// What moving values and states costs a step, beside its arithmetic. Both go on at once, so that the longer
// one is how long a step takes at least.
#pragma once
#include "app/plan/planned.h"
#include "app/plan/speeds.h"
#include "engine/io/json.h"

namespace ft {

struct StepCost {
  Moved moved;  // bytes, of each rank
  Speeds speeds;
  double files = 0, arithmetic = 0;  // seconds; 0: unknown
  // From which on, the other unchanged, arithmetic takes longer than the files; 0: unknown, or never.
  std::int64_t length = 0, batch = 0;
  const char* length_setting = "max_seq_length";
};

StepCost step_cost(const RunConfig&, const Planned&, Room, const Speeds&);

std::string as_text(const StepCost&);  // lines
void add_to(Json&, const StepCost&);

}  // namespace ft
