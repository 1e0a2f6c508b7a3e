// ft plan: what a run will take, before it starts: memory by category, arithmetic of a step, and when it does
// not fit the settings that would make it fit. The very code that trains is run on memory that is only
// counted.
#pragma once
#include <cstdint>
#include <string>

#include "app/config/args.h"
#include "app/plan/speeds.h"
#include "engine/core/error.h"

namespace ft {

struct PlanArgs : ConfigArgs {
  std::string model;  // a model folder or a config.json instead of a configuration
  bool json = false;
  double parameters = 0;   // instead of both: this many trained parameters
  std::int64_t ranks = 0;  // 0: as configured
  std::string gpu;         // empty: the device of the configuration, on this machine
  GivenSpeeds speeds;
};
Exit plan(const PlanArgs&);
// For `parameters`: by ZeRO's formulas.
Exit plan_by_formula(const PlanArgs&);

}  // namespace ft
