// An attention and its gradient on the same tensors, for tests and benches.
#pragma once
#include "engine/ops/attention.h"

namespace ft {

struct AttentionPair {
  Tensor y, lse, q, k, v, dy, dq, dk, dv;
  Heads heads;
  Mask mask;
  Scores scores = {};
  Tensor dbias = {};

  op::Attention forward() const {
    return {.y = y, .lse = lse, .q = q, .k = k, .v = v, .heads = heads, .mask = mask, .scores = scores};
  }
  op::AttentionGrad backward() const {
    return {.dq = dq,
            .dk = dk,
            .dv = dv,
            .dbias = dbias,
            .dy = dy,
            .y = y,
            .lse = lse,
            .q = q,
            .k = k,
            .v = v,
            .heads = heads,
            .mask = mask,
            .scores = scores};
  }
};

}  // namespace ft
