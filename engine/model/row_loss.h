// A loss that is more than the sum of the rows' losses: an objective that needs the values of all of a
// batch's rows before it knows each row's weight.
#pragma once
#include "engine/pass/context.h"

namespace ft {

// Values of the batch's target rows, which the head computes.
struct RowValues {
  Tensor values;  // (targets * each) f32: -log p of the target token, the scores of the labels, or the state
  std::int64_t each = 1;
  Tensor statistics;    // (targets, op::LogitStatistics::kCount) f32; empty: not wanted, or scores
  bool scores = false;  // values are scores or states
};

class RowLoss {
 public:
  virtual ~RowLoss() = default;
  virtual bool wants_statistics() const { return false; }
  virtual float temperature() const { return 1; }  // logits are divided by this
  // Writes weights (targets * each) f32: the derivative of the loss by each value. Empty: there is no
  // backward pass. Called once a pass, also if there are no targets.
  virtual void weigh(Ctx&, const RowValues&, Tensor weights) = 0;
};

}  // namespace ft
