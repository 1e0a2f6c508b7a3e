// Values of a ParameterStore's parameters: gathered from the ranks that shard them, or fetched from a depot,
// for as long as their unit is in use, and prefetched in the expected order.
//
// ZeRO++ (Wang et al. 2023, arXiv 2306.10209) sends fewer bytes: values in 8 bits (qwZ), and a second copy of
// the gathered values that a group of near ranks shards (hpZ).
#pragma once
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "engine/core/heap.h"
#include "engine/zero/store/device_memory.h"
#include "engine/zero/store/offloaded_values.h"
#include "engine/zero/store_memory.h"

namespace ft::zero {

class Residency {
 public:
  // depot: for values that are not on the device; null: all are.
  Residency(Ops&, const Layout&, const std::shared_ptr<Depot>& depot);

  // Setup, once: reserve each group, then `bytes` for gathered values.
  void reserve(const Group&);
  void reserve_gathered(std::int64_t bytes);
  void load(const Group&, const ReadParameter&);  // frozen values

  // Sets the order in which a pass will use units, some more than once: the candidates for prefetching.
  void expect(const std::vector<int>& units);
  bool expects() const { return !expected_.empty(); }
  // Binds the unit's values until release(), which returns true if the unit is no longer in use.
  void acquire(int unit);
  bool release(int unit);
  void gather(int unit);  // starts to gather an on-demand unit ahead
  // Tells that trained values have changed, or may: second copies are no longer valid.
  void forget_copies();

  Tensor value(const Group& g) const { return of(g).value.tensor; }  // this rank's part; empty if offloaded
  // Elements of the group, which this rank's part has.
  Tensor value(const Group& g, Range elements) const {
    return value(g).elements(elements.first - layout_.held(g, g.stage.params).first, elements.count);
  }
  Away away(const Group& g) const { return offloaded_ && g.transient ? offloaded_->away(g) : Away{}; }
  bool offloads() const { return offloaded_.has_value(); }
  bool gathers() const { return gathered_.has_value(); }  // values are transient
  bool pending() const;                                   // a unit is being gathered
  std::int64_t most_live() const { return most_live_; }   // most elements gathered at once so far
  std::int64_t transient() const { return gathered_ ? gathered_->size() : 0; }  // bytes
  void add_to(StoreMemory&) const;                                              // without transient memory

 private:
  struct Values {  // of a group
    OwnTensor value, copy;
    bool copied = false;  // `copy` is set, and the values have not changed
    // While the unit is in use: the complete values, and the message of all ranks, in codes if they are
    // coded, with this rank's part.
    Tensor all, wire, own;
  };
  struct Gathered {                                 // of a unit
    int uses = 0;                                   // number of acquire() calls without release()
    std::byte *values = nullptr, *codes = nullptr;  // memory; null: not there and not on the way
    std::optional<Communicator::Ticket> arriving;
    std::optional<Depot::Ticket> fetched;
  };

  Values& of(const Group& g) { return values_[static_cast<std::size_t>(g.index)]; }
  const Values& of(const Group& g) const { return values_[static_cast<std::size_t>(g.index)]; }
  Gathered& state(int unit) { return units_[static_cast<std::size_t>(unit)]; }
  std::int64_t wire_bytes(const Group&) const;
  void gather_ahead();
  void start(const Unit&);
  void place(const Unit&, Gathered&);
  void send(const Unit&, Gathered&);
  void land(const Unit&);

  Ops& ops_;
  const Layout& layout_;
  const StoreRanks& ranks_;
  const ZeroOptions& options_;
  std::optional<OffloadedValues> offloaded_;
  std::vector<Values> values_;   // indexed by Group::index
  std::vector<Gathered> units_;  // indexed by Unit::index
  std::optional<Heap> gathered_;
  std::deque<int> expected_;
  std::int64_t live_ = 0, ahead_ = 0, most_live_ = 0;  // elements: gathered, gathered ahead, most gathered
  int units_ahead_ = 0;
};

}  // namespace ft::zero
