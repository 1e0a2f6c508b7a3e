// Settings of reward models.
#pragma once
#include <optional>

#include "engine/core/rules.h"

namespace ft {

struct RewardModelSettings {
  std::optional<double> center_rewards_coefficient;

  void fields(auto& f) {
    f("center_rewards_coefficient", center_rewards_coefficient,
      "reward: weight of the squared sum of a pair's scores; null: 0.", at_least(0));
  }
};

}  // namespace ft
