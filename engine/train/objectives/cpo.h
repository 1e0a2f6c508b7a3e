// Settings of contrastive preference optimization and SimPO.
#pragma once
#include <optional>

#include "engine/core/rules.h"

namespace ft {

struct CpoSettings {
  std::optional<double> cpo_alpha;

  void fields(auto& f) {
    f("cpo_alpha", cpo_alpha, "cpo: weight of the chosen answers' cross-entropy; null: 1.", at_least(0));
  }
};

struct SimpoSettings {
  std::optional<double> simpo_gamma;

  void fields(auto& f) {
    f("simpo_gamma", simpo_gamma, "simpo, and cpo with simpo: the margin, divided by beta; null: 0.5.",
      at_least(0));
  }
};

}  // namespace ft
