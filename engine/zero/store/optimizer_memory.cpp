#include "engine/zero/store/optimizer_memory.h"

#include "engine/core/divide.h"

namespace ft::zero {

Away OptimizerMemory::reserve_away(std::int64_t count, DType dtype) const {
  return Away::reserve(depot_, count * size_of(dtype));
}

void OptimizerMemory::reserve(const Group& g) {
  require(!depot_ || !want_complete_gradient(g.specs), "complete gradients are on the device");
  groups_.resize(static_cast<std::size_t>(layout_.groups()));
  Memory& m = groups_[static_cast<std::size_t>(g.index)];
  const Range mine = layout_.updated(g);
  const Tensor value = values_.value(g);
  const Away value_away = values_.away(g);
  if (g.dtype == DType::f32 && (value_away || !updater_.on_host())) {  // the value is its own master
    m.master.away = value_away;
    if (!value_away)
      m.master.here.tensor =
          g.stage.params == Placement::sharded ? value : value.elements(mine.first, mine.count);
  } else if (depot_) {
    m.master.away = reserve_away(mine.count, DType::f32);
    if (updater_.on_host() && depot_->home() == Home::host && !value_away && g.dtype != DType::f32)
      m.passing = reserve_away(mine.count, g.dtype);
  } else {
    m.master.here.reserve(ops_, mine.count, DType::f32);
  }
  for (const StateSpec& s : g.specs) {
    const std::int64_t count =
        s.unsharded() ? unsharded_elements(g, s, g.parameters.size()) : s.elements(mine.count);
    Held& state = m.states.emplace_back();
    if (depot_)
      state.away = reserve_away(count, s.dtype);
    else
      state.here.reserve(ops_, count, s.dtype);
  }
}

// Returns the elements of an unsharded state of the first `before` parameters.
std::int64_t OptimizerMemory::unsharded_elements(const Group& g, const StateSpec& s,
                                                 std::size_t before) const {
  std::int64_t count = 0;
  for (std::size_t i = 0; i < before; ++i) {
    const std::int64_t n = s.shape_for(g.parameters[i]->shape).numel();
    count +=
        round_up(s.kept == Kept::shares ? Share::most(n, layout_.ranks().all.size()) : n, std::int64_t{64});
  }
  return count;
}

Tensor OptimizerMemory::unsharded_state(const Group& g, std::size_t state, std::size_t parameter) const {
  const StateSpec& s = g.specs[state];
  const Communicator& ranks = layout_.ranks().all;
  const std::int64_t n = s.shape_for(g.parameters[parameter]->shape).numel();
  return of(g).states[state].here.tensor.elements(
      unsharded_elements(g, s, parameter),
      s.kept == Kept::shares ? Share::of(n, ranks.rank(), ranks.size()).count : n);
}

void OptimizerMemory::add_unsharded_states(const Group& g, std::size_t parameter, FlatSlice& to) const {
  for (std::size_t k = 0; k < g.specs.size(); ++k)
    if (g.specs[k].unsharded()) to.states[k] = unsharded_state(g, k, parameter);
}

void OptimizerMemory::add_to(StoreMemory& m) const {
  for (const Memory& g : groups_) {
    m.optimizer += g.master.here.bytes();
    for (const Held& state : g.states) m.optimizer += state.here.bytes();
  }
}

}  // namespace ft::zero
