#include "engine/zero/store/residency.h"

#include <algorithm>

namespace ft::zero {

Residency::Residency(Ops& ops, const Layout& layout, const std::shared_ptr<Depot>& depot)
    : ops_(ops), layout_(layout), ranks_(layout.ranks()), options_(layout.options()) {
  if (depot) offloaded_.emplace(layout, depot);
}

void Residency::reserve(const Group& g) {
  values_.resize(static_cast<std::size_t>(layout_.groups()));
  Values& v = of(g);
  if (offloaded_ && g.transient)
    offloaded_->reserve(g);
  else
    v.value.reserve(ops_, layout_.held(g, g.stage.params).count, g.dtype);
  if (!g.transient) bind(g, &Parameter::value, v.value.tensor);
  if (g.transient && ranks_.near) {
    const DType type = g.coded_values ? DType::u8 : g.dtype;
    v.copy.reserve(ops_, wire_bytes(g) / size_of(type) / ranks_.near->size(), type);
  }
  const bool transient = options_.stage.params == Placement::sharded || offloaded_;
  for (const Parameter* p : g.parameters) live_ += transient && !g.transient ? p->shape.numel() : 0;
}

// An endless heap allocates nothing and returns addresses only.
void Residency::reserve_gathered(std::int64_t bytes) {
  units_.resize(static_cast<std::size_t>(layout_.units()));
  if (offloaded_ || options_.stage.params == Placement::sharded)
    gathered_.emplace(ops_.allocate(bytes == Heap::kEndless ? 0 : bytes), bytes);
}

void Residency::load(const Group& g, const ReadParameter& source) {
  of(g).copied = false;
  if (offloaded_ && g.transient)
    offloaded_->load(g, source);
  else
    read(ops_, g, value(g), layout_.held(g, g.stage.params), source);
}

void Residency::expect(const std::vector<int>& units) {
  require(ahead_ == 0, "units were gathered for a pass that did not use them");
  expected_.assign(units.begin(), units.end());
}

// Prefetches by DeepSpeed's rule (stage3_prefetch_bucket_size): while fewer elements than that are in flight.
// A unit that is in use is gathered again only after its release.
void Residency::gather_ahead() {
  if (!options_.overlap) return;
  for (const int next : expected_) {
    const Unit& u = layout_.unit(next);
    const Gathered& s = state(next);
    if (s.uses > 0 && s.values) return;
    if (u.elements == 0 || s.values) continue;
    if (ahead_ >= options_.prefetch || live_ + u.elements > options_.max_live) return;
    if (offloaded_ && units_ahead_ >= options_.units_ahead) return;
    start(u);
    ahead_ += u.elements;
    ++units_ahead_;
  }
}

void Residency::acquire(int index) {
  const Unit& u = layout_.unit(index);
  Gathered& s = state(index);
  if (!u.on_demand && !expected_.empty()) {
    require(expected_.front() == index, "units are used in another order than was said");
    expected_.pop_front();
  }
  if (u.elements > 0 && s.uses == 0) {
    if (!s.values) {
      start(u);
    } else if (!u.on_demand) {
      ahead_ -= u.elements;
      --units_ahead_;
    }
  }
  ++s.uses;
  if (u.elements > 0 && !u.on_demand) gather_ahead();
  if (s.arriving) {
    ranks_.shards.finish(*s.arriving);
    s.arriving.reset();
    land(u);
  }
  if (s.fetched) offloaded_->finish(*s.fetched);
  s.fetched.reset();
}

bool Residency::release(int index) {
  Gathered& s = state(index);
  if (--s.uses > 0) return false;
  if (s.values) {
    gathered_->give_back(s.values);
    s.values = nullptr;
    live_ -= layout_.unit(index).elements;
  }
  return true;
}

void Residency::gather(int index) {
  const Unit& u = layout_.unit(index);
  const Gathered& s = state(index);
  if (options_.overlap && u.elements > 0 && s.uses == 0 && !s.values) start(u);
}

bool Residency::pending() const {
  return std::ranges::any_of(units_, [](const Gathered& s) { return s.arriving.has_value(); });
}

void Residency::add_to(StoreMemory& m) const {
  layout_.each_group([&](const Group& g) {
    (g.trained ? m.trained : m.weights) += of(g).value.bytes();
    m.communication += of(g).copy.bytes();
  });
}

}  // namespace ft::zero
