// Layout of a ParameterStore: units of parameters, flat buffers, and each rank's part of them. It has no
// memory.
//
// A unit (the embedding, one block, the head) is gathered and reduced together. Its frozen and its trained
// parameters are in separate flat buffers (groups), padded so that they divide into equal pieces for the
// ranks. Small parameters, which are replicated under every stage, have their own groups. Frozen parameters
// may have several types (codes of 4-bit weights, scales, norms): their buffer is one of bytes. Trained
// parameters have one type.
#pragma once
#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "engine/zero/state_spec.h"
#include "engine/zero/store/store_ranks.h"

namespace ft::zero {

// Elements [first, first + count) of a group.
struct Range {
  std::int64_t first, count;
  std::int64_t end() const { return first + count; }
  // Returns the part of [from, to) in this range; if there is none, an empty range within this one.
  Range part(std::int64_t from, std::int64_t to) const {
    const std::int64_t begin = std::clamp(from, first, end());
    return {begin, std::clamp(to, first, end()) - begin};
  }
};

// Consecutive parameters of a unit that have the same properties and, if trained, one dtype.
struct Group {
  int index = 0, unit = 0;  // among all groups, and units, of the store
  bool trained = false, persist = false, dealt = false, at_both_ends = false;
  bool coded_values = false, coded_grads = false;  // are sent in 8 bits, in 4 bits
  ZeroStage stage{};
  std::vector<StateSpec> specs;  // of each trained parameter
  DType dtype = DType::f32;      // of the buffer; u8: bytes, whatever the parameters' types
  bool transient = false;        // values are complete only while the unit is in use

  std::vector<Parameter*> parameters;
  std::vector<std::int64_t> offsets;  // of each parameter, in elements
  std::int64_t count = 0;             // elements with padding: a multiple of the number of sharding ranks
  std::int64_t first_trained = 0;     // number of trained parameters in earlier groups

  // Returns the buffer elements that a parameter takes.
  std::int64_t size(const Parameter& p) const { return p.shape.numel() * size_of(p.dtype) / size_of(dtype); }
  std::int64_t bytes() const { return count * size_of(dtype); }  // a multiple of Arena::kAlign
  // Returns the elements of parameter `i` in `range`.
  Range part(std::size_t i, Range range) const {
    return range.part(offsets[i], offsets[i] + size(*parameters[i]));
  }
};

struct Unit {
  int index = 0;
  std::string name;
  std::vector<Group> groups;  // none is empty
  std::int64_t elements = 0;  // of transient groups
  bool on_demand = false;     // not in the expected order: its user acquires it when a token needs it
  bool trained() const {
    return std::ranges::any_of(groups, [](const Group& g) { return g.trained; });
  }
};

// Sets `view` of each parameter of a group to its part of `all`, which holds the complete group.
void bind(const Group&, Tensor Parameter::*view, const Tensor& all);

class Layout {
 public:
  // offloads_values: values that are not persistent are not on the device.
  Layout(const StoreRanks&, const ZeroOptions&, StatesOf, bool offloads_values);

  int add_unit(std::string name, const std::vector<Parameter*>& parameters, bool on_demand);
  int units() const { return static_cast<int>(units_.size()); }
  const Unit& unit(int u) const { return units_[static_cast<std::size_t>(u)]; }
  bool trains(int u) const { return unit(u).trained(); }
  const std::vector<Unit>& all() const { return units_; }
  int groups() const { return groups_; }
  std::int64_t trained_parameters() const { return trained_; }
  void each_group(const auto& visit) const {
    for (const Unit& u : units_)
      for (const Group& g : u.groups) visit(g);
  }
  void each_parameter(const auto& visit) const {
    each_group([&](const Group& g) {
      for (const Parameter* p : g.parameters) visit(*p);
    });
  }
  std::span<const StateSpec> states(const Parameter& p) const { return states_(p); }

  Range held(const Group&, Placement) const;  // this rank's part of a group
  Range updated(const Group& g) const { return held(g, g.stage.states); }
  // Elements of offloaded data that pass through the device at once: a multiple of a depot's block in any
  // type, and of the states' blocks.
  std::int64_t window(const Group&) const;
  bool persists(const Parameter& p) const { return p.shape.numel() <= options_.persist; }
  // Returns true if every pass needs all ranks, to gather values or because their experts differ. Ranks must
  // then make their passes together.
  bool gathers() const {
    return ranks_.all.size() > 1 && (options_.stage.params == Placement::sharded || ranks_.experts);
  }
  // Starts work on a unit's groups, together for groups with the same ranks. Returns the last ticket.
  Communicator::Ticket start(const Unit&, const std::function<void(Communicator&, const Group&)>& each) const;

  const StoreRanks& ranks() const { return ranks_; }
  const ZeroOptions& options() const { return options_; }

 private:
  bool is_coded(const Parameter&) const;
  Group& group_for(Unit&, const Parameter&);
  void lay_out(Group&) const;

  const StoreRanks& ranks_;
  const ZeroOptions options_;
  const StatesOf states_;
  const bool offloads_values_;
  std::vector<Unit> units_;
  int groups_ = 0;
  std::int64_t trained_ = 0;
};

}  // namespace ft::zero
