// Gradients of a ParameterStore: memory during a backward pass, sums over ranks, beside the
// computation of the next unit, and their norm. Everything is started in program order, which is the same on
// all ranks.
#pragma once
#include <deque>
#include <functional>
#include <memory>

#include "engine/zero/slices.h"
#include "engine/zero/store/coded_gradients.h"
#include "engine/zero/store/gradient_home.h"

namespace ft::zero {

class Reduction {
 public:
  // depot: keeps the gradients; null: the device does.
  Reduction(Ops&, const Layout&, const std::shared_ptr<Depot>& depot);

  // Setup, once: reserve each trained group, then the sums of squares and `bytes` for complete gradients.
  void reserve(const Group& g) { home_->reserve(g); }
  void reserve_complete(std::int64_t bytes);
  // Sets a function that is called when a unit's last gradients of a step are kept.
  void when_kept(std::function<void(const Unit&)> f) { kept_ = std::move(f); }

  // own: gradients are not added up over ranks, for a step that does this itself.
  void begin_step(bool own);
  void begin_micro_step(bool last);
  // Binds the unit's gradients until reduce() or release().
  void acquire(int unit);
  void release(int unit);
  // Call when the gradients bound by acquire() are computed. `complete`: no more will come in this
  // micro-step. Call it also for on-demand units that were not acquired.
  void reduce(int unit, bool complete);
  // Returns true if a unit that this backward pass does not use must still be acquired and reduced, because
  // its gradients become complete.
  bool completes(int unit) const { return last_micro_ && home_->offloaded(unit); }
  // Call after a step's last backward pass. Adds up the parameters that both ends of a pipeline have.
  void add_up_ends();
  void settle();  // finishes all reductions and copies

  // Visits slices of the gradients in this rank's part of every group, wherever they are kept.
  using EachSlice = std::function<void(const std::function<void(const Slice&)>& visit)>;
  // Returns the norm of the gradients that step `step` applies (ParameterStore::grad_norm).
  double norm(std::int64_t step, const EachSlice&);
  // Calls f(all of a group's gradients): gathered, or each rank's own if they are not added up.
  void with_complete(const Group&, const std::function<void(const Tensor&)>& f);

  GradientHome& home() { return *home_; }
  const SquareSums& sums() const { return sums_; }
  // Returns true if gradients are in temporary memory before they are kept.
  bool has_temporary() const { return complete_.heap.has_value(); }
  bool pending() const { return !pending_.empty(); }
  std::int64_t transient() const { return complete_.heap ? complete_.heap->size() : 0; }  // bytes
  void add_to(StoreMemory& m) const { m.gradients += home_->bytes(); }  // without transient memory

 private:
  struct Pending {  // a reduction that was started
    const Unit* unit;
    Communicator::Ticket ticket;
    std::function<void()> then;  // null: nothing is left to do
  };

  Tensor own(const Group& g) const { return home_->kept(g).here; }
  void add_up_parts(const Unit&, bool last) const;
  void start_sum(const Unit&);
  void start_complete(const Unit&, bool last);
  void sum_complete(Communicator&, const Group&, bool last) const;
  void start_across(const Unit&);
  void arrive(const Unit&, const std::byte* taken, bool last, const std::shared_ptr<CodedGradients>&);
  void advance();
  void finish_all();

  Ops& ops_;
  const Layout& layout_;
  const StoreRanks& ranks_;
  const ZeroOptions& options_;
  SquareSums sums_;
  const std::unique_ptr<GradientHome> home_;
  const bool offloads_;
  CompleteGradients complete_;
  std::vector<const std::byte*> bound_;  // memory of each unit in a backward pass; null: none
  std::deque<Pending> pending_;
  std::function<void(const Unit&)> kept_;
  bool last_micro_ = true, first_grads_ = true;  // state of a micro-step
  bool own_ = false;                             // this step's gradients are not added up
};

}  // namespace ft::zero
