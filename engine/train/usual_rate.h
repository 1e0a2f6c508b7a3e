// Default learning rate and schedule of a run: the defaults of TRL's trainers. Adapters that learn from
// examples get ten times the rate of full models.
#pragma once
#include "engine/train/config.h"
#include "engine/train/objectives/config.h"
#include "engine/train/schedules/list.h"

namespace ft {

struct UsualRate {
  double learning_rate;
  LrScheduler schedule;
};

constexpr UsualRate usual_rate(ObjectiveType type, bool adapter) {
  using enum ObjectiveType;
  switch (type) {
    case sft:
    case distill:
      return {adapter ? 2e-4 : 2e-5, &schedules::kCosine};
    case reward:
      return {1e-4, &schedules::kLinear};
    case ppo:
      return {3e-6, &schedules::kLinear};
    case dpo:
    case kto:
    case orpo:
    case cpo:
    case simpo:
    case grpo:
      return {1e-6, &schedules::kLinear};
  }
  return {2e-4, &schedules::kCosine};
}

}  // namespace ft
