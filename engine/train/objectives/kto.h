// Settings of Kahneman-Tversky optimization.
#pragma once
#include <optional>

#include "engine/core/rules.h"

namespace ft {

struct KtoSettings {
  std::optional<double> desirable_weight, undesirable_weight;

  void fields(auto& f) {
    f("desirable_weight", desirable_weight, "kto: weight of desired answers; null: 1.", at_least(0));
    f("undesirable_weight", undesirable_weight, "kto: weight of the others; null: 1.", at_least(0));
  }
};

}  // namespace ft
