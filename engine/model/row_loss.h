// What the rows of a pass are trained for, where that is more than the sum of their losses: an objective that
// looks at all of a batch's rows before it knows what each is worth.
#pragma once
#include "engine/pass/context.h"

namespace ft {

// What the head makes of the batch's target rows.
struct RowValues {
  Tensor values;      // (targets) f32: -log p of the target, or the score
  Tensor statistics;  // (targets, op::LogitStatistics::kCount) f32; empty: nobody asked, or scores
  bool scores = false;
};

class RowLoss {
 public:
  virtual ~RowLoss() = default;
  virtual bool wants_statistics() const { return false; }
  virtual float temperature() const { return 1; }  // what logits are divided by
  // Writes weights (targets) f32: the gradient, by each value, of what is minimised. Empty: there is no
  // backward pass. Called once a pass, also where there are no targets.
  virtual void weigh(Ctx&, const RowValues&, Tensor weights) = 0;
};

}  // namespace ft
