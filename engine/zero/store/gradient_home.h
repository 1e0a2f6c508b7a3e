// Memory that keeps this rank's gradients until they are applied: the device's, or a depot's. It is chosen
// once.
#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "engine/core/heap.h"
#include "engine/zero/store/device_memory.h"
#include "engine/zero/store/reading.h"
#include "engine/zero/store_memory.h"

namespace ft::zero {

// Complete gradients of units in temporary memory, from their backward pass until they are reduced.
struct CompleteGradients {
  std::optional<Heap> heap;
  std::vector<Tensor> tensors;  // (count) of each trained group, f32; indexed by Group::index
  const Tensor& of(const Group& g) const { return tensors[static_cast<std::size_t>(g.index)]; }
};

class GradientHome {
 public:
  struct Kept {          // this rank's gradients of a group
    Tensor here;         // on the device; empty if offloaded
    Away away;           // if offloaded
    bool empty = false;  // offloaded gradients that no pass has made: zeros, stored nowhere
  };

  virtual ~GradientHome() = default;
  virtual void reserve(const Group&) = 0;
  // Clears the gradients, or has products overwrite them (Parameter::grad_unset). If steps are delayed: the
  // gradients of the step before the last.
  virtual void begin_step() = 0;
  // Clears a unit's gradients that no product of this step has overwritten. Call before they are read.
  virtual void complete(const Unit&) {}
  // Copies a unit's gradients of earlier micro-steps to their complete ones, to which a backward pass adds.
  // Returns false if the pass begins from zeros.
  virtual bool fetch(const Unit&, const CompleteGradients&) { return false; }
  // Keeps a unit's reduced gradients, and gives back their memory `taken`, at the latest in settle(). Skips
  // groups that are sent in codes. last: these are the step's last.
  virtual void keep(const Unit&, CompleteGradients&, const std::byte* taken, bool last) = 0;
  virtual void settle(CompleteGradients&) {}                    // waits until all are kept
  virtual bool offloaded(int /*unit*/) const { return false; }  // gradients of this step have been put
  // previous: the gradients of the step before, if steps are delayed.
  virtual Kept kept(const Group&, bool previous = false) const = 0;
  virtual void land(const Unit&) {}  // waits until the host sees the gradients that this unit's update reads
  // Returns the sum of squares of this rank's gradients that step `step` applies. Empty: not known, they are
  // on the device.
  virtual std::optional<double> squares(std::int64_t /*step*/) { return {}; }
  // Reads the gradients of the step before, if steps are delayed.
  virtual void restore(const ReadParameter&) {}
  virtual std::int64_t bytes() const = 0;  // on the device
};

}  // namespace ft::zero
