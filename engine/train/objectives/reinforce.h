// Settings of REINFORCE++ (Hu et al. 2025), as OpenRLHF's estimators `reinforce` and `reinforce_baseline`.
#pragma once
#include <optional>

#include "engine/core/rules.h"

namespace ft {

inline constexpr double kReinforceBeta = 0.01;  // default of objective.beta

struct ReinforceSettings {
  std::optional<bool> group_baseline;

  void fields(auto& f) {
    f("group_baseline", group_baseline,
      "reinforce++: subtract the mean reward of the answers to the same prompt (REINFORCE++-baseline); "
      "null: false.");
  }
};

}  // namespace ft
