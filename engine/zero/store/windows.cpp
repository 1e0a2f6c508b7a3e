#include "engine/zero/store/windows.h"

#include <algorithm>

namespace ft::zero {

FlatSlice Window::slice(Range part) const {
  const std::int64_t first = part.first - range.first, count = part.count;
  const auto part_of = [&](const Tensor& t) { return t ? t.elements(first, count) : Tensor{}; };
  FlatSlice s{part_of(here.master), part_of(here.grad), {}, part_of(here.value)};
  const auto& specs = group->specs;
  for (std::size_t k = 0; k < specs.size(); ++k)
    s.states.push_back(specs[k].unsharded()
                           ? Tensor{}
                           : here.states[k].elements(first / specs[k].block, specs[k].elements(count)));
  return s;
}

Windows::Windows(Ops& ops, const Layout& layout, const Updater& updater, const Residency& values,
                 GradientHome& gradients, const OptimizerMemory& optimizer)
    : ops_(ops),
      layout_(layout),
      updater_(updater),
      values_(values),
      gradients_(gradients),
      optimizer_(optimizer) {}

void Windows::reserve(std::int64_t bytes) {
  if (optimizer_.offloads() || values_.offloads())
    memory_.emplace(updater_.ops(ops_).allocate(bytes == Heap::kEndless ? 0 : bytes), bytes);
}

void Windows::add(const Unit& u, Placement placement, std::vector<Window>& to) const {
  for (const Group& g : u.groups) {
    if (!g.trained) continue;
    const Range mine = layout_.held(g, placement);
    const std::int64_t size = offloads(g) ? layout_.window(g) : mine.count;
    for (std::int64_t at = 0; at < mine.count; at += size)
      to.push_back({&u, &g, {mine.first + at, std::min(size, mine.count - at)}});
  }
}

Tensor Windows::take(Window& w, std::int64_t count, DType dtype) {
  w.taken.push_back(memory_->take(count * size_of(dtype)));
  return {w.taken.back(), dtype, {count}};
}

Tensor Windows::part(Window& w, const Tensor& resident, const Away& away, std::int64_t first,
                     std::int64_t count, DType type) {
  if (!away) return resident.elements(first, count);
  const std::int64_t at = away.at + first * size_of(type);
  if (std::byte* here = updater_.in_place(away, at)) return {here, type, {count}};
  const Tensor t = take(w, count, type);
  w.coming.push_back({&updater_.mover(away), updater_.mover(away).fetch(t, at)});
  return t;
}

Tensor Windows::gradient(Window& w, Access access) {
  const GradientHome::Kept kept = gradients_.kept(*w.group, access.previous);
  const std::int64_t first = w.range.first - layout_.held(*w.group, w.group->stage.grads).first;
  if (!kept.empty) return part(w, kept.here, kept.away, first, w.range.count, DType::f32);
  const Tensor zeros = take(w, w.range.count, DType::f32);
  ops(access).run(op::Fill{zeros, 0});
  return zeros;
}

// Fetches a window's data. If the host updates, it first waits until the device has put this step's
// gradients.
void Windows::bring(Window& w, Access access) {
  if (access.grads && updater_.on_host()) gradients_.land(*w.unit);
  const Group& g = *w.group;
  const OptimizerMemory::Memory& own = optimizer_.of(g);
  const std::int64_t first = w.range.first - layout_.updated(g).first, count = w.range.count;
  w.here.master = part(w, own.master.here.tensor, own.master.away, first, count, DType::f32);
  if (access.grads) w.here.grad = gradient(w, access);
  for (std::size_t k = 0; k < g.specs.size(); ++k) {
    const StateSpec& s = g.specs[k];
    w.here.states.push_back(s.unsharded() ? Tensor{}
                                          : part(w, own.states[k].here.tensor, own.states[k].away,
                                                 first / s.block, s.elements(count), s.dtype));
  }
  const bool later = access.rounds && want_complete_gradient(g.specs);  // the pass over complete ones does it
  if (access.changes && g.dtype != DType::f32 && !later) w.here.value = value(w);
}

// Returns the memory of a window's values, for the processor that updates their masters.
Tensor Windows::value(Window& w) {
  const Group& g = *w.group;
  const Away away = values_.away(g);
  if (!away && !updater_.on_host()) return values_.value(g, w.range);
  const Away& narrow = away ? away : optimizer_.of(g).passing;
  const std::int64_t first = w.range.first - layout_.updated(g).first;
  std::byte* here = narrow ? updater_.in_place(narrow, narrow.at + first * size_of(g.dtype)) : nullptr;
  return here ? Tensor(here, g.dtype, {w.range.count}) : take(w, w.range.count, g.dtype);
}

// Writes a window's changed data back, with the values that follow from it.
void Windows::leave(Window& w, Access access) {
  const Group& g = *w.group;
  const OptimizerMemory::Memory& own = optimizer_.of(g);
  const std::int64_t first = w.range.first - layout_.updated(g).first;
  const auto put = [&](const Away& away, std::int64_t from, const Tensor& t) {
    const std::int64_t at = away.at + from * size_of(t.dtype);
    if (away && !updater_.in_place(away, at))
      w.going.push_back({&updater_.mover(away), updater_.mover(away).put(at, t)});
  };
  if (w.here.value) {
    if (!access.rounds) ops(access).run(op::Cast{w.here.value, w.here.master});
    put(values_.away(g), first, w.here.value);
  }
  put(own.master.away, first, w.here.master);
  for (std::size_t k = 0; k < g.specs.size(); ++k)
    put(own.states[k].away, first / g.specs[k].block, w.here.states[k]);
  if (updater_.on_host() && !values_.away(g)) leave_for_device(w);
}

// Uploads values that the device holds, after the host has updated their masters.
void Windows::leave_for_device(const Window& w) {
  const Group& g = *w.group;
  const OptimizerMemory::Memory& own = optimizer_.of(g);
  const Tensor to = values_.value(g, w.range);
  const Away& from = own.passing ? own.passing : own.master.away;
  const std::int64_t at = from.at + (w.range.first - layout_.updated(g).first) * size_of(g.dtype);
  if (from.depot->in_place(at)) {
    upload_ = {from.depot, from.depot->fetch(to, at)};
    return;
  }
  ops_.upload(to, (w.here.value ? w.here.value : w.here.master).data);
  uploaded_ += to.bytes();
}

void Windows::finish_uploads() {
  if (upload_) upload_->depot->finish(upload_->ticket);
}

void Windows::settle(std::vector<Window::Move>& moves) {
  for (const Window::Move& m : moves) m.depot->finish(m.ticket);
  moves.clear();
}

void Windows::free(Window& w) {
  settle(w.going);
  for (const std::byte* taken : w.taken) memory_->give_back(taken);
}

void Windows::pass(std::vector<Window> all, Access access, const Visit& visit) {
  const auto ahead = static_cast<std::size_t>(std::max(1, layout_.options().windows - 2));
  std::size_t brought = 0, gone = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (; gone + 1 < i; ++gone) free(all[gone]);
    for (; brought < all.size() && brought <= i + ahead; ++brought) bring(all[brought], access);
    settle(all[i].coming);
    visit(all[i]);
    if (access.changes) leave(all[i], access);
  }
  for (; gone < all.size(); ++gone) free(all[gone]);
}

}  // namespace ft::zero
