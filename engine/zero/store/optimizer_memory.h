// Masters and optimizer states of the elements that this rank updates.
#pragma once
#include <memory>
#include <vector>

#include "engine/zero/slices.h"
#include "engine/zero/store/residency.h"
#include "engine/zero/store/updater.h"

namespace ft::zero {

class OptimizerMemory {
 public:
  struct Held {      // (elements that this rank updates; for states: as declared)
    OwnTensor here;  // empty if offloaded
    Away away;
  };
  struct Memory {  // of a group
    Held master;   // f32; in an f32 run the value itself
    Away passing;  // narrower values on the device, whose masters the host updates in place
    std::vector<Held> states;
  };

  // depot: for masters of narrower values and states; null: they are on the device.
  OptimizerMemory(Ops& ops, const Layout& layout, const Residency& values, const Updater& updater,
                  std::shared_ptr<Depot> depot)
      : ops_(ops), layout_(layout), values_(values), updater_(updater), depot_(std::move(depot)) {}
  void reserve(const Group&);  // a trained one
  const Memory& of(const Group& g) const { return groups_[static_cast<std::size_t>(g.index)]; }
  // States that are not sharded like the parameter (StateSpec::unsharded) lie one parameter's after another.
  Tensor unsharded_state(const Group&, std::size_t state, std::size_t parameter) const;
  void add_unsharded_states(const Group&, std::size_t parameter, FlatSlice& to) const;
  bool offloads() const { return depot_ != nullptr; }
  void add_to(StoreMemory&) const;

 private:
  Away reserve_away(std::int64_t count, DType) const;
  std::int64_t unsharded_elements(const Group&, const StateSpec&, std::size_t before) const;

  Ops& ops_;
  const Layout& layout_;
  const Residency& values_;
  const Updater& updater_;
  const std::shared_ptr<Depot> depot_;
  std::vector<Memory> groups_;  // indexed by Group::index
};

}  // namespace ft::zero
