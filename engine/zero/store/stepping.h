// Updates of a ParameterStore: visits the masters, states and gradients that this rank updates, also beside a
// backward pass, and makes new values visible to all ranks.
#pragma once
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "engine/ranks/work_queue.h"
#include "engine/zero/store/windows.h"

namespace ft::zero {

class Stepping {
 public:
  Stepping(Ops&, const Layout&, const Homes&, Residency&, Reduction&);
  // Ends the thread of early updates, dropping updates that have not begun.
  void stop();

  // Setup, once: reserve each trained group, then `bytes` for windows.
  void reserve(const Group& g) { optimizer_.reserve(g); }
  void reserve_windows(std::int64_t bytes);
  void load(const Group&, const ReadParameter&);  // masters that are on the device

  // Early updates. A unit's begins when its gradients are kept (Reduction::when_kept). finish_early(), after
  // a backward pass and before publish(), updates the remaining units and waits.
  void begin_step(std::optional<EarlyStep> early);
  void finish_early();
  bool steps_early() const { return host_ && optimizer_.offloads(); }

  // Visits slices of this rank's part of each parameter: of the data that it updates, or the part that
  // `placement` gives it.
  void each_slice(const std::function<void(const Slice&)>& visit);
  void each_slice(Placement, Access, const std::function<void(const Slice&)>& visit);
  // Visits the data that a step updates: one launch for each run of parameters with equal update rules,
  // including the padding between them. Padding is zero in masters and gradients, and an update on zeros
  // leaves zeros. The visit writes changed masters to FlatRun::value too. A group is not one run: sorting its
  // parameters by decay would change the bits of the gradient's norm, which is summed in memory order.
  void each_run(const std::function<void(const FlatRun&)>& visit);
  // Visits, after the runs, the parameters whose states want the complete gradient, a group at a time. The
  // gradient is gathered from the ranks' results so far, or is each rank's own. squares: set
  // CompleteSlice::squares.
  void each_complete(bool squares, const std::function<void(std::span<const CompleteSlice>)>& visit);
  // Visits the states that are not sharded like their parameter, also of parameters that this rank does not
  // update. `first`: index of the first element in the saved tensor.
  using VisitState =
      std::function<void(const Parameter&, const StateSpec&, const Tensor& here, std::int64_t first)>;
  void each_unsharded_state(const VisitState& visit) const;
  // Returns the Ops for the tensors of slices and runs: `usual` (the device's, or a wrapper) or the host's.
  Ops& ops(Ops& usual) const { return updater_.ops(usual); }
  // Makes updated values visible: gathers those that other ranks need.
  void publish();

  std::int64_t transient() const { return windows_.transient(); }  // bytes
  std::int64_t uploaded() const { return windows_.uploaded(); }    // bytes that no depot copied
  void add_to(StoreMemory&) const;

 private:
  void step_early(const Unit&);
  void each_window(Placement, Access, const Windows::Visit&);
  static void each_run_of(const Window&, const std::function<void(const FlatRun&)>&);
  std::vector<double> squares_of_masters();
  std::vector<CompleteSlice> complete_slices(const Window&, const Tensor& gradient,
                                             const std::vector<double>& squares) const;

  Ops& ops_;
  const Layout& layout_;
  Residency& values_;
  Reduction& gradients_;
  const Updater updater_;
  OptimizerMemory optimizer_;
  Windows windows_;
  const std::shared_ptr<Ops> host_;  // Homes::host
  std::optional<EarlyStep> early_;
  std::vector<std::uint8_t> stepped_;  // units that were updated early in this step
  std::optional<WorkQueue> beside_;    // runs early updates; last member: it uses the others
};

}  // namespace ft::zero
