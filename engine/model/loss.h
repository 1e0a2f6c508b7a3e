// The loss of a pass over a batch's targets: one of three kinds. The head computes it (head.h).
#pragma once
#include <cstdint>
#include <span>
#include <variant>

#include "engine/model/logit_loss.h"
#include "engine/model/row_loss.h"

namespace ft {

// Targets from the end of the stretch before (the first: from 0) to `end`, whose losses are also added up by
// themselves: in sum `group`; -1: in none.
struct TargetStretch {
  std::int64_t end = 0;
  std::int32_t group = -1;
};

// The cross-entropy of the targets.
struct CrossEntropy {
  Tensor sum;                                     // (1) f64, += the losses of all targets
  float scale = 1;                                // factor of the gradients
  float smoothing = 0;                            // of the labels, in [0, 1]
  bool dynamic = false;                           // times the target's probability, see op::CrossEntropy
  std::span<const TargetStretch> stretches = {};  // of all targets, or none
  Tensor group_sums = {};                         // (groups) f64, += the losses of the stretches
};

// A loss of each target that is a function of its logits alone.
struct LogitLosses {
  Tensor sum;  // (1) f64, += the losses of all targets
  LogitLoss* each = nullptr;
  float scale = 1;  // factor of the gradients
};

// RowLoss: the values of all targets decide each target's weight. It adds up and scales by itself.
using Loss = std::variant<CrossEntropy, LogitLosses, RowLoss*>;

}  // namespace ft
