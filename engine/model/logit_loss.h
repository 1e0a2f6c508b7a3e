// A loss of each target that is a function of its logits alone, and the source of another model's logits.
#pragma once
#include "engine/pass/context.h"

namespace ft {

class LogitLoss {
 public:
  // A range of a batch's targets, from `begin` on.
  struct Chunk {
    Tensor losses;   // (rows) f32, output
    Tensor logits;   // (rows, V); if `gradient` is set, replaced by scale times the losses' gradient
    Tensor targets;  // (rows) i32
    std::int64_t begin = 0;
    float scale = 1;
    float cap = 0;  // of the logits; 0: none
    bool gradient = false;
  };
  virtual ~LogitLoss() = default;
  virtual void run(Ctx&, const Chunk&) = 0;
};

// The logits of a batch's targets, in ranges of rows. It keeps the last states, and holds the head's weights
// fetched.
class TargetLogits {
 public:
  virtual ~TargetLogits() = default;
  // Writes the logits (rows, V) of the targets from `begin` on, in the activations' dtype.
  virtual void write(Ctx&, Tensor logits, std::int64_t begin) const = 0;
};

}  // namespace ft
