// Statistics of how evenly a pass uses the experts of all layers. Each layer with experts writes its own row,
// so that blocks that run again write the same values.
#pragma once
#include "engine/pass/context.h"

namespace ft {

struct RouterStatistics {
  Tensor starts;  // (layers, E + 1) i32, of op::GroupRows
  Tensor sums;    // (layers, E) f32: sums of all tokens' probabilities
  Tensor slope;   // (E) f32: of op::RouterBalance, between forward and backward
};

// A model's loss for uneven use of experts: coefficient times op::RouterBalance's loss.
struct RouterBalanceLoss {
  std::int64_t layers = 0, experts = 0, choices = 0;
  float coefficient = 0;  // 0: there is none

  // Takes memory from c.saved.
  RouterStatistics take(Ctx& c) const {
    return {c.saved.take({layers, experts + 1}, DType::i32), c.saved.take({layers, experts}, DType::f32),
            c.saved.take({experts}, DType::f32)};
  }
  // loss += its value times c.tokens_weight. scale: factor of the gradients.
  void add(Ctx&, Tensor loss, const RouterStatistics&, float scale) const;
};

}  // namespace ft
