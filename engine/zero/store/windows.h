// Windows over masters, states and gradients: offloaded data passes through the processor that updates it, a
// window at a time. A group that is not offloaded is one window.
#pragma once
#include <functional>
#include <optional>
#include <vector>

#include "engine/zero/store/optimizer_memory.h"
#include "engine/zero/store/reduction.h"

namespace ft::zero {

struct Access {
  bool changes = false;   // changes masters and states: write them back, and masters as values too
  bool grads = false;     // gradients are needed
  bool previous = false;  // the gradients of the step before
  bool rounds = false;    // the visit writes changed masters to FlatSlice::value itself
  // The Ops of the thread of early updates, because the pass computes on the usual Ops at the same time.
  // Null: the usual Ops.
  Ops* beside = nullptr;
};

struct Window {
  struct Move {  // a copy that was started
    Depot* depot;
    Depot::Ticket ticket;
  };
  const Unit* unit;
  const Group* group;
  Range range;                          // in elements of the group
  FlatSlice here{};                     // of the range; empty states where StateSpec::unsharded
  std::vector<std::byte*> taken{};      // temporary memory
  std::vector<Move> coming{}, going{};  // pending copies

  FlatSlice slice(Range) const;  // a part of the window, in elements of the group
};

class Windows {
 public:
  using Visit = std::function<void(const Window&)>;
  Windows(Ops&, const Layout&, const Updater&, const Residency&, GradientHome&, const OptimizerMemory&);
  void reserve(std::int64_t bytes);  // for windows
  // Appends the windows over the part of a unit's trained groups that `placement` gives this rank.
  void add(const Unit&, Placement, std::vector<Window>& to) const;
  // Visits windows one after another. Meanwhile the last window is written back and the next are fetched.
  void pass(std::vector<Window>, Access, const Visit&);
  void finish_uploads();  // of updated values to the device

  std::int64_t uploaded() const { return uploaded_; }                       // bytes that no depot copied
  std::int64_t transient() const { return memory_ ? memory_->size() : 0; }  // bytes

 private:
  void bring(Window&, Access);
  void leave(Window&, Access);
  void leave_for_device(const Window&);
  void free(Window&);
  Tensor take(Window&, std::int64_t count, DType);
  // Elements [first, first + count) of `resident`, or a copy of the offloaded ones.
  Tensor part(Window&, const Tensor& resident, const Away&, std::int64_t first, std::int64_t count, DType);
  Tensor gradient(Window&, Access);
  Tensor value(Window&);
  Ops& ops(Access a) const { return a.beside ? *a.beside : updater_.ops(ops_); }
  bool offloads(const Group& g) const { return optimizer_.offloads() || values_.away(g); }
  static void settle(std::vector<Window::Move>&);

  Ops& ops_;
  const Layout& layout_;
  const Updater& updater_;
  const Residency& values_;
  GradientHome& gradients_;
  const OptimizerMemory& optimizer_;
  std::optional<Heap> memory_;
  std::optional<Window::Move> upload_;  // the last one that a depot does
  std::int64_t uploaded_ = 0;
};

}  // namespace ft::zero
