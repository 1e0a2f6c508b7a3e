// Parameters, gradients and optimizer states of a model: all of ZeRO (options.h). It has five parts, each
// with one duty: the layout (which rank holds which elements), residency (values are complete while a unit is
// in use), reduction (gradients are added up over ranks), stepping (updates) and the parts that checkpoints
// hold.
//
// Trained parameters have an f32 master (the value itself in an f32 run), an f32 gradient and the states that
// the optimizer declares. A rank's data may be offloaded from its device (ZeRO-Offload, Ren et al., USENIX
// ATC 2021; ZeRO-Infinity, Rajbhandari et al., SC 2021) as `Homes` says. Offloaded values are fetched for
// their use, complete, like gathered ones. A unit's gradients are offloaded when they are complete. Masters
// and states pass through the device a window at a time when they are updated, saved or restored. The host
// updates the data that a GPU offloads.
#pragma once
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "engine/zero/store/on_demand.h"
#include "engine/zero/store/parts.h"

namespace ft {

class ParameterStore {
 public:
  // grid: the ranks with other parts of the model, each at this rank's place in its own `comm`, and the ranks
  // of `comm` with the same Parameter::dealt parameters. Null: every rank has the complete model.
  ParameterStore(Ops& ops, Communicator& comm, const ZeroOptions& options, StatesOf states = no_states,
                 Homes homes = {}, const Grid* grid = nullptr);
  ParameterStore(Ops& ops, Communicator& comm, ZeroStage stage, StatesOf states = no_states)
      : ParameterStore(ops, comm, ZeroOptions{.stage = stage}, std::move(states)) {}
  ~ParameterStore();

  // Setup, once: add_unit in the order of use, then reserve, then load.
  // transient: transient() of a store on NullOps after the same steps.
  // on_demand: the unit is not in the expected order of a pass (store/on_demand.h).
  int add_unit(std::string name, const std::vector<Parameter*>& parameters, bool on_demand = false) {
    return layout_.add_unit(std::move(name), parameters, on_demand);
  }
  void reserve(TransientMemory transient = {});
  void load(const ReadParameter&);

  // begin_step clears gradients, or leaves that to the first products (Parameter::grad_unset). `last` marks a
  // step's last micro-step. own: gradients are not added up over ranks, for a step that does this itself.
  void begin_step(std::optional<EarlyStep> early = {}, bool own = false);
  void begin_micro_step(bool last) { reduction_.begin_micro_step(last); }
  // Sets the order in which a pass will use units, some more than once: the candidates for prefetching.
  void expect(const std::vector<int>& units) { residency_.expect(units); }
  // Binds the unit's values (and gradients, for a backward pass) until release().
  void acquire(int unit, bool backward);
  void release(int unit);
  // Call when the gradients bound by acquire(unit, true) are computed. `complete`: no more will come in this
  // micro-step. Call it also for on-demand units that were not acquired.
  void reduce(int unit, bool complete) { reduction_.reduce(unit, complete); }
  // Global L2 norm, in f64, of the gradients of all parameters that step `step` (counted from 1) updates.
  // Waits for the device. If gradients are not added up: the root mean square of the norms that each rank's
  // own gradient would have as the mean, which is at least the norm of the mean.
  double grad_norm(std::int64_t step = std::numeric_limits<std::int64_t>::max());
  // Makes updated values visible: gathers those that other ranks need. Stepping's passes write them.
  void publish() { stepping_.publish(); }

  const zero::Layout& layout() const { return layout_; }
  zero::Residency& residency() { return residency_; }
  zero::Reduction& reduction() { return reduction_; }
  zero::Stepping& stepping() { return stepping_; }
  zero::Parts& parts() { return parts_; }
  zero::OnDemand& on_demand() { return on_demand_; }

  StoreMemory memory() const;
  TransientMemory transient() const;
  Moved moved() const;           // so far
  std::string moved_by() const;  // the means of copying, for people
  Communicator& communicator() const { return ranks_.all; }

 private:
  Ops& ops_;
  const Homes homes_;
  const zero::StoreRanks ranks_;
  zero::Layout layout_;
  zero::Residency residency_;
  zero::Reduction reduction_;
  zero::Stepping stepping_;
  zero::Parts parts_;
  zero::OnDemand on_demand_;
};

// Keeps the unit acquired while it exists.
class Use {
 public:
  Use(ParameterStore& store, int unit, bool backward) : store_(store), unit_(unit) {
    store_.acquire(unit, backward);
  }
  ~Use() { store_.release(unit_); }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;

 private:
  ParameterStore& store_;
  int unit_;
};

}  // namespace ft
