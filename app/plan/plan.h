// ft plan: predicts memory by category and the arithmetic of a step. If the run does not fit, lists settings
// with which it fits. Runs the training code itself on memory that is only counted.
#pragma once
#include <cstdint>
#include <string>

#include "app/config/args.h"
#include "app/plan/speeds.h"
#include "engine/core/error.h"

namespace ft {

struct PlanArgs : ConfigArgs {
  std::string model;  // a model folder or a config.json, planned at full length without data; empty: that
                      // of the configuration
  bool json = false;
  double parameters = 0;   // instead of configuration and model: number of trained parameters
  std::int64_t ranks = 0;  // 0: as configured
  std::string gpu;         // empty: the configured device of this machine
  GivenSpeeds speeds;
};
Exit plan(const PlanArgs&);
// Plans `parameters` by ZeRO's formulas.
Exit plan_by_formula(const PlanArgs&);

}  // namespace ft
