// The operands of the gated delta rule and of its gradient, as views.
#pragma once
#include "engine/ops/recurrent.h"
#include "engine/ops/view.h"

namespace ft {

// The operands of both operations; an operation leaves those that it lacks empty.
struct DeltaOperands {
  View o, q, k, v, o_grad, dq, dk, dv;
  View g, beta, dg, dbeta;  // f32
  View memory, states;      // rows of V k v
  const std::int32_t *first, *slot, *past;
  View work;
  DeltaHeads heads;
};

FT_HD inline DeltaOperands operands_of(const op::DeltaRule& x) {
  return {.o = view_of(x.o),
          .q = view_of(x.q),
          .k = view_of(x.k),
          .v = view_of(x.v),
          .o_grad = {},
          .dq = {},
          .dk = {},
          .dv = {},
          .g = view_of(x.g),
          .beta = view_of(x.beta),
          .dg = {},
          .dbeta = {},
          .memory = view_of(x.memory),
          .states = {},
          .first = data_of<const std::int32_t>(x.first),
          .slot = data_of<const std::int32_t>(x.slot),
          .past = data_of<const std::int32_t>(x.past),
          .work = view_of(x.work),
          .heads = x.heads};
}
FT_HD inline DeltaOperands operands_of(const op::DeltaRuleGrad& x) {
  return {.o = {},
          .q = view_of(x.q),
          .k = view_of(x.k),
          .v = view_of(x.v),
          .o_grad = view_of(x.o_grad),
          .dq = view_of(x.dq),
          .dk = view_of(x.dk),
          .dv = view_of(x.dv),
          .g = view_of(x.g),
          .beta = view_of(x.beta),
          .dg = view_of(x.dg),
          .dbeta = view_of(x.dbeta),
          .memory = {},
          .states = view_of(x.states),
          .first = data_of<const std::int32_t>(x.first),
          .slot = nullptr,
          .past = nullptr,
          .work = view_of(x.work),
          .heads = x.heads};
}

}  // namespace ft
