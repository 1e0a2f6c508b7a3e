#include "engine/zero/store/depot_gradients.h"

#include <algorithm>

#include "engine/core/divide.h"

namespace ft::zero {

void DepotGradients::reserve(const Group& g) {
  places_.resize(static_cast<std::size_t>(layout_.groups()));
  units_.resize(static_cast<std::size_t>(layout_.units()));
  const std::int64_t bytes = layout_.held(g, g.stage.grads).count * size_of(DType::f32);
  for (int k = 0; k < (layout_.options().delayed ? 2 : 1); ++k)
    places_[static_cast<std::size_t>(g.index)].away[k] = Away::reserve(depot_, bytes);
}

void DepotGradients::begin_step() {
  if (layout_.options().delayed) made_ = 1 - made_;
  for (Made& m : units_) m.made[made_] = false;
}

bool DepotGradients::fetch(const Unit& u, const CompleteGradients& complete) {
  if (!offloaded(u.index) || layout_.options().stage.grads == Placement::sharded) return false;
  for (const Group& g : u.groups)
    if (g.trained) depot_->finish(depot_->fetch(complete.of(g), place(g).at));
  return true;
}

// Before the backward pass added to replicated gradients, fetch() copied the earlier micro-steps'; to this
// rank's piece of sharded gradients they are added here.
void DepotGradients::keep(const Unit& u, CompleteGradients& complete, const std::byte* taken, bool last) {
  Depot::Ticket ticket = 0;
  for (const Group& g : u.groups) {
    if (!g.trained) continue;
    const Range mine = layout_.held(g, g.stage.grads);
    const Tensor own = complete.of(g).elements(mine.first, mine.count);
    if (offloaded(u.index) && g.stage.grads == Placement::sharded) add_kept(g, complete, own);
    if (last) sum_squares(g, complete.of(g));
    ticket = depot_->put(place(g).at, own);
  }
  Made& m = units_[static_cast<std::size_t>(u.index)];
  m.made[made_] = true;
  m.put = last_put_ = ticket;
  leaving_.push_back({ticket, taken});
}

// Adds the gradients in the depot to `own`, a window at a time.
void DepotGradients::add_kept(const Group& g, CompleteGradients& complete, const Tensor& own) {
  const std::int64_t size = std::min(layout_.window(g), own.numel());
  Tensor part(complete.heap->take(size * size_of(DType::f32)), DType::f32, {size});
  for (std::int64_t at = 0; at < own.numel(); at += size) {
    const std::int64_t count = std::min(size, own.numel() - at);
    const Tensor more = part.elements(0, count);
    depot_->finish(depot_->fetch(more, place(g).at + at * size_of(DType::f32)));
    ops_.run(op::Add{own.elements(at, count), more});
  }
  complete.heap->give_back(part.data);
}

// Sums in the order and slices that are used for gradients on the device, so that the norm has the same bits.
void DepotGradients::sum_squares(const Group& g, const Tensor& complete) {
  const Range mine = layout_.held(g, Placement::sharded);
  for (std::size_t i = 0; i < g.parameters.size(); ++i) {
    const Range part = g.part(i, mine);
    const double zero = 0;
    ops_.upload(sums_.of(g, i), &zero);
    if (part.count > 0) ops_.run(op::SumSquares{sums_.of(g, i), complete.elements(part.first, part.count)});
  }
}

void DepotGradients::settle(CompleteGradients& complete) {
  for (; !leaving_.empty(); leaving_.pop_front()) {
    depot_->finish(leaving_.front().ticket);
    complete.heap->give_back(leaving_.front().memory);
  }
}

GradientHome::Kept DepotGradients::kept(const Group& g, bool previous) const {
  const int k = previous ? 1 - made_ : made_;
  return {.here = {},
          .away = places_[static_cast<std::size_t>(g.index)].away[k],
          .empty = !units_[static_cast<std::size_t>(g.unit)].made[k]};
}

// The device then no longer reads the unit's values, and the gradients of the step before have arrived too.
void DepotGradients::land(const Unit& u) {
  depot_->land(offloaded(u.index) ? units_[static_cast<std::size_t>(u.index)].put : last_put_);
}

std::optional<double> DepotGradients::squares(std::int64_t step) {
  std::vector<double> sums(static_cast<std::size_t>(sums_.all().numel()));
  ops_.download(sums.data(), sums_.all());
  double total = 0;
  for (const Unit& u : layout_.all())
    for (const Group& g : u.groups)
      for (std::size_t i = 0; g.trained && offloaded(u.index) && i < g.parameters.size(); ++i)
        if (g.parameters[i]->rule.frozen_steps < step && !g.parameters[i]->copied)
          total += sums[SquareSums::place(g, i)];
  return total;
}

void DepotGradients::restore(const ReadParameter& source) {
  for (const Unit& u : layout_.all())
    for (const Group& g : u.groups) {
      if (!g.trained) continue;
      read_away(g, place(g), layout_.held(g, g.stage.grads), DType::f32, source);
      units_[static_cast<std::size_t>(u.index)].made[made_] = true;
    }
}

}  // namespace ft::zero
