// The loss of rows of logits.
#pragma once
#include "engine/ops/roles.h"

namespace ft::op {

// loss = -log softmax(logits)[target] by row, or with label smoothing e against (1 - e) onehot + e / V. With
// `gradient` the logits become scale times its gradient, in place: that of what SoftCap made them of where
// they are capped.
struct CrossEntropy {
  static constexpr const char* kName = "cross_entropy";
  Out loss;      // (rows) f32
  InOut logits;  // (rows, V)
  In targets;    // (rows) i32
  float scale = 1;
  float smoothing = 0;  // e, in [0, 1]
  bool gradient = false;
  float cap = 0;  // of the logits; 0: they are not capped

  void check() const;
  void check_indices() const;
  void operands(auto&& visit) const {
    visit("loss", loss);
    if (gradient)
      visit("logits' gradient", logits);
    else
      visit("logits", In(logits));
    visit("targets", targets);
  }
};

}  // namespace ft::op
