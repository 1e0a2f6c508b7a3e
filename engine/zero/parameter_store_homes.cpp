// Offloaded data of a ParameterStore: gradients are put in their depot when they are complete, and data that
// an update changes passes through the device a window at a time. Groups that are not offloaded are one
// window each.
#include <algorithm>

#include "engine/ops/ops.h"
#include "engine/zero/parameter_store.h"

namespace ft {

// Offloads a unit's gradients, including earlier micro-steps'. Before the backward pass added to replicated
// gradients, take_grads() fetched the earlier ones; to this rank's piece of sharded gradients they are added
// here.
void ParameterStore::send_home(const Reduction& r) {
  Unit& u = *r.unit;
  Depot::Ticket ticket = 0;
  for (const Group& g : u.groups) {
    if (!g.trained) continue;
    const Range mine = held(g, g.stage.grads);
    const Tensor own = g.whole_grad.elements(mine.first, mine.count);
    if (u.has_grads[made_] && g.stage.grads == Layout::sharded) add_from_home(g, own);
    if (r.last) sum_squares(g);
    ticket = homes_.states->put(g.grad_away[made_].at, own);
  }
  u.has_grads[made_] = true;
  u.put = last_put_ = ticket;
  leaving_.push_back({ticket, r.grads});
  if (early_ && r.last) step_early(u);
}

void ParameterStore::add_from_home(const Group& g, Tensor own) {
  const std::int64_t size = std::min(window_of(g), own.numel());
  Tensor part(grads_->take(size * size_of(DType::f32)), DType::f32, {size});
  for (std::int64_t at = 0; at < own.numel(); at += size) {
    const std::int64_t count = std::min(size, own.numel() - at);
    const Tensor more = part.elements(0, count);
    homes_.states->finish(homes_.states->fetch(more, g.grad_away[made_].at + at * size_of(DType::f32)));
    ops_.run(op::Add{own.elements(at, count), more});
  }
  grads_->give_back(part.data);
}

void ParameterStore::settle_homes() {
  for (; !leaving_.empty(); leaving_.pop_front()) {
    homes_.states->finish(leaving_.front().ticket);
    grads_->give_back(leaving_.front().grads);
  }
}

// Sums the squares of a group's gradients before they are offloaded, in the order and slices that grad_norm()
// uses for gradients in memory, so that the norm has the same bits.
void ParameterStore::sum_squares(const Group& g) {
  const Range mine = held(g, Layout::sharded);
  const Tensor sums(norm_memory_.get(), DType::f64, {1 + norms_});
  for (std::size_t i = 0; i < g.parameters.size(); ++i) {
    const std::int64_t from = std::max(g.offsets[i], mine.first),
                       to = std::min(g.offsets[i] + g.parameters[i]->shape.numel(), mine.first + mine.count);
    const Tensor sum = sums.elements(1 + g.first_norm + static_cast<std::int64_t>(i), 1);
    const double zero = 0;
    ops_.upload(sum, &zero);
    if (from < to) ops_.run(op::SumSquares{sum, g.whole_grad.elements(from, to - from)});
  }
}

double ParameterStore::sum_of_squares(std::int64_t step) {
  settle();
  settle_homes();
  std::vector<double> sums(static_cast<std::size_t>(1 + norms_));
  ops_.download(sums.data(), Tensor(norm_memory_.get(), DType::f64, {1 + norms_}));
  double total = 0;
  for (const Unit& u : units_)
    for (const Group& g : u.groups)
      for (std::size_t i = 0; g.trained && u.has_grads[made_] && i < g.parameters.size(); ++i)
        if (g.parameters[i]->rule.frozen_steps < step && !g.parameters[i]->copied)
          total += sums[static_cast<std::size_t>(1 + g.first_norm) + i];
  return total;
}

// Returns elements: a multiple of a depot's block in any type, and of the states' blocks.
std::int64_t ParameterStore::window_of(const Group& g) const {
  return round_up(options_.window, Depot::kBlock * common_block(g.specs));
}

void ParameterStore::add_windows(Unit& u, Layout layout, std::vector<Window>& to) {
  for (Group& g : u.groups) {
    if (!g.trained) continue;
    const Range mine = held(g, layout);
    const std::int64_t size = g.elsewhere() ? window_of(g) : mine.count;
    for (std::int64_t at = 0; at < mine.count; at += size)
      to.push_back({&u, &g, {mine.first + at, std::min(size, mine.count - at)}});
  }
}

// Returns the permanent address of data for the processor that updates it; null: it must be fetched.
std::byte* ParameterStore::in_place(const Away& away, std::int64_t at) const {
  const bool for_host = on_host_ || ops_.device().kind == Device::Kind::cpu;
  return for_host ? away.depot->in_place(at) : nullptr;
}

Depot& ParameterStore::mover(const Away& away) const {
  return on_host_ ? away.depot->for_host() : *away.depot;
}

Tensor ParameterStore::take_window(Window& w, std::int64_t count, DType dtype) {
  w.taken.push_back(windows_->take(count * size_of(dtype)));
  return {w.taken.back(), dtype, {count}};
}

// Fetches a window's data. If the host updates, it first waits until the device has put this step's
// gradients. The device then no longer reads the values, and the gradients of the step before have arrived
// too.
void ParameterStore::bring(Window& w, Access access) {
  if (access.grads && on_host_) homes_.states->land(w.unit->has_grads[made_] ? w.unit->put : last_put_);
  const Group& g = *w.group;
  const std::int64_t first = w.range.first - stepped(g).first, count = w.range.count;
  const auto part = [&](const Tensor& resident, const Away& away, std::int64_t from, std::int64_t n,
                        DType type) {
    if (!away) return resident.elements(from, n);
    const std::int64_t at = away.at + from * size_of(type);
    if (std::byte* here = in_place(away, at)) return Tensor(here, type, {n});
    const Tensor t = take_window(w, n, type);
    w.coming.push_back({&mover(away), mover(away).fetch(t, at)});
    return t;
  };
  w.here.master = part(g.master, g.master_away, first, count, DType::f32);
  if (access.grads) {
    const Away& away = g.grad_away[slot(access)];
    const std::int64_t from = w.range.first - held(g, g.stage.grads).first;
    if (away && !w.unit->has_grads[slot(access)]) {
      w.here.grad = take_window(w, count, DType::f32);
      stepping(ops_).run(op::Fill{w.here.grad, 0});
    } else {
      w.here.grad = part(g.grad, away, from, count, DType::f32);
    }
  }
  for (std::size_t k = 0; k < g.specs.size(); ++k)
    w.here.states.push_back(g.specs[k].whole() ? Tensor{}
                                               : part(g.states[k], g.states_away[k], first / g.specs[k].block,
                                                      g.specs[k].elements(count), g.specs[k].dtype));
  if (!access.changes || g.dtype == DType::f32 || !(on_host_ || g.value_away)) return;
  const Away& narrow = g.value_away ? g.value_away : g.passing;
  std::byte* here = narrow ? in_place(narrow, narrow.at + first * size_of(g.dtype)) : nullptr;
  w.value = here ? Tensor(here, g.dtype, {count}) : take_window(w, count, g.dtype);
}

// Writes a window's changed data back, with the values that follow from it.
void ParameterStore::leave(Window& w) {
  const Group& g = *w.group;
  const std::int64_t first = w.range.first - stepped(g).first;
  const auto put = [&](const Away& away, std::int64_t from, const Tensor& t) {
    const std::int64_t at = away.at + from * size_of(t.dtype);
    if (away && !in_place(away, at)) w.going.push_back({&mover(away), mover(away).put(at, t)});
  };
  if (g.dtype != DType::f32 && g.elsewhere()) {
    if (!w.value) w.value = g.value.elements(w.range.first - held(g, g.stage.params).first, w.range.count);
    stepping(ops_).run(op::Cast{w.value, w.here.master});
    put(g.value_away, first, w.value);
  }
  put(g.master_away, first, w.here.master);
  for (std::size_t k = 0; k < g.specs.size(); ++k)
    put(g.states_away[k], first / g.specs[k].block, w.here.states[k]);
  if (on_host_ && !g.value_away) leave_for_device(w);
}

// Uploads values that the device holds, after the host has updated their masters.
void ParameterStore::leave_for_device(Window& w) {
  const Group& g = *w.group;
  const Tensor to = g.value.elements(w.range.first - held(g, g.stage.params).first, w.range.count);
  const Away& from = g.passing ? g.passing : g.master_away;
  const std::int64_t at = from.at + (w.range.first - stepped(g).first) * size_of(g.dtype);
  if (from.depot->in_place(at)) {
    rising_ = from.depot->fetch(to, at);
    return;
  }
  ops_.upload(to, (w.value ? w.value : w.here.master).data);
  uploaded_ += to.bytes();
}

void ParameterStore::settle(std::vector<Move>& moves) {
  for (const Move& m : moves) m.depot->finish(m.ticket);
  moves.clear();
}

void ParameterStore::free(Window& w) {
  settle(w.going);
  for (const std::byte* taken : w.taken) windows_->give_back(taken);
}

void ParameterStore::each_window(Layout layout, Access access,
                                 const std::function<void(const Window&)>& visit) {
  settle();
  settle_homes();
  std::vector<Window> all;
  for (Unit& u : units_) add_windows(u, layout, all);
  pass(std::move(all), access, visit);
}

// Visits windows one after another. Meanwhile the last window is written back and the next are fetched.
void ParameterStore::pass(std::vector<Window> all, Access access,
                          const std::function<void(const Window&)>& visit) {
  const auto ahead = static_cast<std::size_t>(std::max(1, options_.windows - 2));
  std::size_t brought = 0, gone = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (; gone + 1 < i; ++gone) free(all[gone]);
    for (; brought < all.size() && brought <= i + ahead; ++brought) bring(all[brought], access);
    settle(all[i].coming);
    visit(all[i]);
    if (access.changes) leave(all[i]);
  }
  for (; gone < all.size(); ++gone) free(all[gone]);
}

FlatSlice ParameterStore::flat_slice(const Window& w, std::int64_t from, std::int64_t to) {
  const std::int64_t first = from - w.range.first, count = to - from;
  FlatSlice s{
      w.here.master.elements(first, count), w.here.grad ? w.here.grad.elements(first, count) : Tensor{}, {}};
  const auto& specs = w.group->specs;
  for (std::size_t k = 0; k < specs.size(); ++k)
    s.states.push_back(specs[k].whole()
                           ? Tensor{}
                           : w.here.states[k].elements(first / specs[k].block, specs[k].elements(count)));
  return s;
}

void ParameterStore::each_slice(Layout layout, Access access,
                                const std::function<void(const Slice&)>& visit) {
  each_window(layout, access, [&](const Window& w) {
    const Group& g = *w.group;
    for (std::size_t i = 0; i < g.parameters.size(); ++i) {
      const std::int64_t begin = g.offsets[i], end = begin + g.parameters[i]->shape.numel();
      const std::int64_t from = std::max(begin, w.range.first),
                         to = std::min(end, w.range.first + w.range.count);
      if (from >= to) continue;
      Slice s{flat_slice(w, from, to), g.parameters[i], from - begin, to - from};
      add_whole_states(g, i, s);
      visit(s);
    }
  });
}

void ParameterStore::each_run(const std::function<void(const FlatRun&)>& visit) {
  each_window(options_.stage.states, {.changes = true, .grads = true},
              [&](const Window& w) { each_run_of(w, visit); });
}

void ParameterStore::each_run_of(const Window& w, const std::function<void(const FlatRun&)>& visit) {
  const Group& g = *w.group;
  const std::size_t n = g.parameters.size();
  for (std::size_t i = 0, next = 0; i < n; i = next) {
    const Parameter& first = *g.parameters[i];
    const auto alike = [&](const Parameter& p) { return p.decays == first.decays && p.rule == first.rule; };
    while (next < n && alike(*g.parameters[next])) ++next;
    const std::int64_t end = next < n ? g.offsets[next] : g.count;
    const std::int64_t from = std::max(g.offsets[i], w.range.first),
                       to = std::min(end, w.range.first + w.range.count);
    if (from < to)
      visit({flat_slice(w, from, to), w.unit->name, first.decays, first.rule, want_whole_gradient(g.specs)});
  }
}

}  // namespace ft
