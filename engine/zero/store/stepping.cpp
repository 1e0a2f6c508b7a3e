#include "engine/zero/store/stepping.h"

namespace ft::zero {

Stepping::Stepping(Ops& ops, const Layout& layout, const Homes& homes, Residency& values,
                   Reduction& gradients)
    : ops_(ops),
      layout_(layout),
      values_(values),
      gradients_(gradients),
      updater_(ops, homes),
      optimizer_(ops, layout, values, updater_, homes.states),
      windows_(ops, layout, updater_, values, gradients.home(), optimizer_),
      host_(homes.host) {
  if (optimizer_.offloads())
    gradients.when_kept([this](const Unit& u) {
      if (early_) step_early(u);
    });
}

void Stepping::stop() {
  if (beside_) beside_->stop();
}

void Stepping::reserve_windows(std::int64_t bytes) {
  windows_.reserve(bytes);
  stepped_.resize(static_cast<std::size_t>(layout_.units()));
  if (steps_early()) beside_.emplace();
}

void Stepping::load(const Group& g, const ReadParameter& source) {
  const Range mine = layout_.updated(g);
  const Tensor master = optimizer_.of(g).master.here.tensor;
  read(ops_, g, master, mine, source);
  if (g.dtype != DType::f32) ops_.run(op::Cast{values_.value(g, mine), master});
}

void Stepping::begin_step(std::optional<EarlyStep> early) {
  std::ranges::fill(stepped_, std::uint8_t{0});
  early_ = std::move(early);
}

// Once a step's last gradients of a unit are complete, nothing reads its values again in that step, so they
// may change.
void Stepping::step_early(const Unit& u) {
  stepped_[static_cast<std::size_t>(u.index)] = 1;
  const auto work = [this, &u] {
    Ops& ops = host_ ? *host_ : ops_;
    std::vector<Window> windows;
    windows_.add(u, layout_.options().stage.states, windows);
    windows_.pass(
        std::move(windows),
        {.changes = true, .grads = true, .previous = early_->previous, .rounds = true, .beside = &ops},
        [&](const Window& w) { each_run_of(w, [&](const FlatRun& run) { early_->visit(ops, run); }); });
  };
  if (beside_)
    beside_->give(work);
  else
    work();
}

void Stepping::finish_early() {
  if (!early_) return;
  gradients_.settle();
  for (const Unit& u : layout_.all())
    if (!stepped_[static_cast<std::size_t>(u.index)]) step_early(u);
  if (beside_) beside_->wait_all();
  early_.reset();
}

void Stepping::each_window(Placement placement, Access access, const Windows::Visit& visit) {
  gradients_.settle();
  std::vector<Window> all;
  for (const Unit& u : layout_.all()) windows_.add(u, placement, all);
  windows_.pass(std::move(all), access, visit);
}

void Stepping::each_slice(const std::function<void(const Slice&)>& visit) {
  each_slice(layout_.options().stage.states, {.changes = true, .grads = true}, visit);
}

void Stepping::each_slice(Placement placement, Access access,
                          const std::function<void(const Slice&)>& visit) {
  each_window(placement, access, [&](const Window& w) {
    const Group& g = *w.group;
    for (std::size_t i = 0; i < g.parameters.size(); ++i) {
      const Range part = g.part(i, w.range);
      if (part.count == 0) continue;
      Slice s{w.slice(part), g.parameters[i], part.first - g.offsets[i], part.count};
      optimizer_.add_unsharded_states(g, i, s);
      visit(s);
    }
  });
}

void Stepping::each_run(const std::function<void(const FlatRun&)>& visit) {
  each_window(layout_.options().stage.states, {.changes = true, .grads = true, .rounds = true},
              [&](const Window& w) { each_run_of(w, visit); });
}

void Stepping::each_run_of(const Window& w, const std::function<void(const FlatRun&)>& visit) {
  const Group& g = *w.group;
  const std::size_t n = g.parameters.size();
  for (std::size_t i = 0, next = 0; i < n; i = next) {
    const Parameter& first = *g.parameters[i];
    const auto equal = [&](const Parameter& p) { return p.decays == first.decays && p.rule == first.rule; };
    while (next < n && equal(*g.parameters[next])) ++next;
    const Range part = w.range.part(g.offsets[i], next < n ? g.offsets[next] : g.count);
    if (part.count > 0)
      visit({w.slice(part), w.unit->name, first.decays, first.rule, want_complete_gradient(g.specs)});
  }
}

void Stepping::publish() {
  values_.forget_copies();
  windows_.finish_uploads();
  Communicator::Ticket last = 0;
  layout_.each_group([&](const Group& g) {
    if (!g.trained) return;
    const Range mine = layout_.updated(g);
    const bool replicated = g.stage.params == Placement::replicated;
    const Tensor value = values_.value(g);
    if (value && replicated && g.stage.states == Placement::sharded)
      last = layout_.ranks().sharing(g.dealt).start([&g, value, mine](Communicator& c) {
        c.enter(g.parameters[0]->name);
        c.all_gather(value, value.elements(mine.first, mine.count));
      });
  });
  if (last > 0) layout_.ranks().shards.finish(last);
}

void Stepping::add_to(StoreMemory& m) const {
  optimizer_.add_to(m);
  (updater_.on_host() ? m.host : m.communication) += transient();
}

}  // namespace ft::zero
