// The peak learning rate and the schedule of a run that names none, by what it minimises and what it trains:
// the defaults of TRL's trainers. Adapters of examples are trained ten times as fast as whole models.
#pragma once
#include "engine/train/config.h"
#include "engine/train/objectives/config.h"

namespace ft {

struct UsualRate {
  double learning_rate;
  LrScheduler schedule;
};

constexpr UsualRate usual_rate(ObjectiveType type, bool adapter) {
  using enum ObjectiveType;
  using enum LrScheduler;
  switch (type) {
    case sft:
    case distill:
      return {adapter ? 2e-4 : 2e-5, cosine};
    case reward:
      return {1e-4, linear};
    case ppo:
      return {3e-6, linear};
    case dpo:
    case kto:
    case orpo:
    case cpo:
    case simpo:
    case grpo:
      return {1e-6, linear};
  }
  return {2e-4, cosine};
}

}  // namespace ft
