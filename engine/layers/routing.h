// How evenly a pass uses the experts of all layers: each layer with experts notes it in a row of its own, so
// that blocks that run again note the same.
#pragma once
#include "engine/pass/context.h"

namespace ft {

struct RouterStatistics {
  Tensor starts;  // (layers, E + 1) i32, of op::GroupRows
  Tensor sums;    // (layers, E) f32: of all tokens' probabilities
  Tensor slope;   // (E) f32: of op::RouterBalance, between forward and backward
};

// A model's loss for uneven use: coefficient times op::RouterBalance's.
struct RouterBalanceLoss {
  std::int64_t layers = 0, experts = 0, choices = 0;
  float coefficient = 0;  // 0: there is none

  // Taken from c.saved.
  RouterStatistics take(Ctx& c) const {
    return {c.saved.take({layers, experts + 1}, DType::i32), c.saved.take({layers, experts}, DType::f32),
            c.saved.take({experts}, DType::f32)};
  }
  // loss += its value times c.tokens_weight; scale: of the gradients.
  void add(Ctx&, Tensor loss, const RouterStatistics&, float scale) const;
};

}  // namespace ft
