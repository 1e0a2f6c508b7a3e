// A step of AdamW on a piece of a ParameterStore, for tests that only compare bits.
#pragma once
#include "engine/ops/all.h"
#include "engine/ops/ops.h"

namespace ft {

// `piece`: a Slice or a FlatRun.
inline void adam_step(Ops& ops, const auto& piece, double scale, int step) {
  ops.run(op::AdamW{.master = piece.master,
                    .value = piece.value,
                    .m = piece.states[0],
                    .v = piece.states[1],
                    .grad = piece.grad,
                    .lr = 0.01,
                    .beta1 = 0.9,
                    .beta2 = 0.99,
                    .eps = 1e-8,
                    .decay = 0.1,
                    .grad_scale = static_cast<float>(scale),
                    .step = step});
}

}  // namespace ft
