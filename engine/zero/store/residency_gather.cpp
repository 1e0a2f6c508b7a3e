// Gathering of a unit's values: memory, messages, codes and second copies.
#include <algorithm>

#include "engine/ranks/coded.h"
#include "engine/zero/store/residency.h"

namespace ft::zero {

// Returns the bytes of a group's values that all ranks send together.
std::int64_t Residency::wire_bytes(const Group& g) const {
  const int ranks = ranks_.shards.size();
  return g.coded_values ? ranks * coded_bytes(g.count / ranks, kValueBits) : g.bytes();
}

void Residency::start(const Unit& u) {
  Gathered& s = state(u.index);
  place(u, s);
  send(u, s);
  live_ += u.elements;
  most_live_ = std::max(most_live_, live_);
}

// Takes memory. Offloaded values are fetched into this rank's part of it.
void Residency::place(const Unit& u, Gathered& s) {
  std::int64_t bytes = 0, codes = 0;
  for (const Group& g : u.groups) {
    bytes += g.transient ? g.bytes() : 0;
    codes += g.transient && g.coded_values ? wire_bytes(g) : 0;
  }
  s.values = gathered_->take(bytes);
  if (codes > 0) s.codes = gathered_->take(codes);
  std::byte *at = s.values, *code = s.codes;
  for (const Group& g : u.groups) {
    if (!g.transient) continue;
    Values& v = of(g);
    const Range mine = layout_.held(g, g.stage.params);
    v.all = v.wire = Tensor(at, g.dtype, {g.count});
    v.own = offloaded_ ? v.all.elements(mine.first, mine.count) : v.value.tensor;
    if (offloaded_)
      if (const auto last = offloaded_->fetch(g, v.own)) s.fetched = last;
    if (g.coded_values) {
      const std::int64_t all = wire_bytes(g), each = all / ranks_.shards.size();
      v.wire = Tensor(code, DType::u8, {all});
      v.own = v.wire.elements(each * ranks_.shards.rank(), each);
      if (!v.copied) encode(ops_, v.own.data, value(g).view({1, value(g).numel()}), kValueBits);
      code += all;
    }
    bind(g, &Parameter::value, v.all);
    at += g.bytes();
  }
}

// If there is a second copy, the near ranks gather from that.
void Residency::send(const Unit& u, Gathered& s) {
  if (!s.fetched || ranks_.shards.size() > 1)
    s.arriving = layout_.start(u, [this, fetched = s.fetched](Communicator& c, const Group& g) {
      if (!g.transient || of(g).copied) return;
      if (fetched) offloaded_->finish(*fetched);
      c.all_gather(of(g).wire, of(g).own);
    });
  const auto near = [this](const Group& g) { return g.transient && of(g).copied; };
  if (std::ranges::any_of(u.groups, near))
    s.arriving = ranks_.near->start([this, &u, near](Communicator& c) {
      c.enter(u.name);
      for (const Group& g : u.groups)
        if (near(g)) c.all_gather(of(g).wire, of(g).copy.tensor);
    });
}

// Takes values that have arrived: saves this rank's part of the second copy, and decodes codes.
void Residency::land(const Unit& u) {
  for (const Group& g : u.groups) {
    if (!g.transient) continue;
    Values& v = of(g);
    if (ranks_.near && !v.copied) {
      const std::int64_t own = v.copy.tensor.numel();
      ops_.copy(v.copy.tensor, v.wire.elements(own * ranks_.near->rank(), own));
      v.copied = true;
    }
    if (g.coded_values) {
      const int ranks = ranks_.shards.size();
      decode(ops_, v.all.view({ranks, g.count / ranks}), v.wire.data, kValueBits);
    }
  }
  Gathered& s = state(u.index);
  if (s.codes) gathered_->give_back(s.codes);
  s.codes = nullptr;
}

void Residency::forget_copies() {
  layout_.each_group([&](const Group& g) {
    if (g.trained) of(g).copied = false;
  });
}

}  // namespace ft::zero
