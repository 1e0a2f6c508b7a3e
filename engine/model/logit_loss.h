// What is minimised of each target by its logits alone, and where another model's logits come from.
#pragma once
#include "engine/pass/context.h"

namespace ft {

class LogitLoss {
 public:
  // Some of a batch's targets, from `begin` on.
  struct Chunk {
    Tensor losses;   // (rows) f32, to be written
    Tensor logits;   // (rows, V); with `gradient` to become scale times the losses' gradient, in place
    Tensor targets;  // (rows) i32
    std::int64_t begin = 0;
    float scale = 1;
    float cap = 0;  // of the logits; 0: they are not capped
    bool gradient = false;
  };
  virtual ~LogitLoss() = default;
  virtual void run(Ctx&, const Chunk&) = 0;
};

// The logits of a batch's targets, some rows at a time. The states they are made of are kept, and the head's
// weights stay fetched.
class TargetLogits {
 public:
  virtual ~TargetLogits() = default;
  // logits (rows, V): of the targets from `begin` on, in the activations' dtype.
  virtual void write(Ctx&, Tensor logits, std::int64_t begin) const = 0;
};

}  // namespace ft
