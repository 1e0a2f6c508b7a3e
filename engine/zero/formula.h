// Memory and traffic of a rank by the formulas of the ZeRO paper (Rajbhandari et al. 2020, sections 5 and 7),
// without padding, buffers and activations.
#pragma once
#include "engine/ops/compressed.h"
#include "engine/zero/options.h"
#include "engine/zero/state_spec.h"

namespace ft {

// Bytes of one trained parameter: its value, its gradient, and all optimizer memory.
struct StateBytes {
  double value, gradient, optimizer;
};
inline constexpr StateBytes kMixedPaper{2, 2, 12};  // all in fp16; f32 master, two f32 states of Adam

// ft's bytes in a run of this type: gradients are f32, and narrower values have an f32 master.
inline StateBytes bytes_of(DType run, std::span<const StateSpec> states) {
  StateBytes b{double(size_of(run)), 4, run == DType::f32 ? 0.0 : 4.0};
  for (const StateSpec& s : states)  // states of rows and columns are negligible
    if (!s.unsharded()) b.optimizer += double(size_of(s.dtype)) / double(s.block);
  return b;
}

// Bytes per rank for this many trained parameters.
constexpr double state_bytes(ZeroStage stage, double ranks, double trained, StateBytes b) {
  const auto of = [&](Placement placement, double bytes) {
    return bytes * trained / (placement == Placement::sharded ? ranks : 1);
  };
  return of(stage.params, b.value) + of(stage.grads, b.gradient) + of(stage.states, b.optimizer);
}

// Bytes that a rank sends in a step of this many micro-steps. Gradients are reduced in f32, values gathered
// in their type. frozen: bytes of all frozen values.
constexpr double sent_bytes(ZeroStage stage, double ranks, double trained, double frozen, StateBytes b,
                            double micro_steps) {
  const double part = (ranks - 1) / ranks, gradients = b.gradient * trained * part,
               values = b.value * trained * part;
  if (stage.params == Placement::sharded) return micro_steps * (gradients + 2 * values + 2 * frozen * part);
  if (stage.grads == Placement::sharded) return micro_steps * gradients + values;
  if (stage.states == Placement::sharded) return gradients + values;
  return 2 * gradients;
}

// The options of ZeRO++ (Wang et al. 2023, arXiv 2306.10209), for stage 3.
struct PlusPlus {
  bool values = false, gradients = false;  // in 8 and 4 bits, with an f32 per op::kWireBlock
  double near = 1;                         // ranks of a group with a second copy; 1: none
};

// Bytes that one number takes in a message.
constexpr double coded_size(int bits) { return bits / 8.0 + 4.0 / op::kWireBlock; }

// Bytes that a rank sends in a step of stage 3 with ZeRO++. A second copy is valid until the values change.
// The copy of frozen values stays valid, so this counts a step after the first.
constexpr double sent_bytes(const PlusPlus& p, double ranks, double trained, double frozen, StateBytes b,
                            double micro_steps) {
  const bool copies = p.near > 1 && p.near < ranks;
  const double part = (ranks - 1) / ranks, near = copies ? (p.near - 1) / p.near : part;
  const double values = trained * (p.values ? coded_size(8) : b.value);
  const double gathered = micro_steps * 2 * near * (values + frozen) + (part - near) * values;
  if (!p.gradients) return gathered + micro_steps * trained * b.gradient * part;
  const double groups = ranks / p.near;
  const double hops = copies ? near + (groups - 1) / groups / p.near : part;
  return gathered + micro_steps * trained * coded_size(4) * hops;
}

// Data that is offloaded.
struct Elsewhere {
  bool params = false, states = false;
};

struct MovedBytes {
  double read = 0, written = 0;
};

// Bytes that a rank reads and writes by offloading, in a step of this many micro-steps. used: bytes of the
// values that a micro-step uses, counted each time they are fetched. Gradients are fetched to be added to,
// and for the update, which also reads and writes masters and states. In f32 the values are their own
// masters; if gradients stay in memory, their norm reads these values as well.
constexpr MovedBytes moved_bytes(ZeroStage stage, double ranks, Elsewhere away, double used, double trained,
                                 StateBytes b, double micro_steps) {
  const double own = trained / ranks,
               gradients = b.gradient * (stage.grads == Placement::sharded ? own : trained);
  MovedBytes m;
  if (away.params) {
    m.read = micro_steps * used / ranks + (b.value == 4 ? (away.states ? 4 : 8) * own : 0);
    m.written = b.value * own;
  }
  if (away.states) {
    m.read += (micro_steps - 1) * gradients + (b.gradient + b.optimizer) * own;
    m.written += micro_steps * gradients + b.optimizer * own;
  }
  return m;
}

}  // namespace ft
