// The steps of a ParameterStore: gathers values, ahead of their use if possible, and reduces gradients while
// the next unit is computed. Everything is started in program order, which is the same on all ranks.
#include <algorithm>
#include <cmath>
#include <span>

#include "engine/ops/ops.h"
#include "engine/ranks/coded.h"
#include "engine/zero/parameter_store.h"

namespace ft {

void ParameterStore::begin_step(std::optional<EarlyStep> early, bool own) {
  finish_early();
  settle();
  settle_homes();
  if (options_.delayed) made_ = 1 - made_;
  for (Unit& u : units_) u.has_grads[made_] = u.stepped = false;
  early_ = std::move(early);
  require(!own || (options_.stage.grads == Layout::replicated && !across_), "own gradients are whole");
  own_ = own;
  forget_copies();
  each_group([&](Group& g) {
    if (g.grad) ops_.run(op::Fill{g.grad, 0});
  });
}

void ParameterStore::expect(const std::vector<int>& units) {
  require(ahead_ == 0, "units were gathered for a pass that did not use them");
  expected_.assign(units.begin(), units.end());
}

Communicator::Ticket ParameterStore::start(
    const Unit& u, const std::function<void(Communicator&, const Group&)>& each) const {
  const bool whole = options_.stage.states == Layout::replicated;  // then all_reduce over all groups at once
  Communicator::Ticket last = 0;
  for (const bool dealt : {false, true}) {
    Communicator& ranks = whole && !dealt ? comm_ : ranks_of(dealt);
    const auto own = [dealt](const Group& g) { return g.dealt == dealt; };
    if (std::ranges::any_of(u.groups, own))
      last = ranks.start([&u, own, each](Communicator& c) {
        c.enter(u.name);
        for (const Group& g : u.groups)
          if (own(g)) each(c, g);
      });
  }
  return last;
}

// Gathers a unit's values. Offloaded values are first fetched into this rank's piece of the gathered tensor.
// If there is a second copy, the group near_ gathers from that.
void ParameterStore::start_gather(Unit& u) {
  std::int64_t bytes = 0, codes = 0;
  bool near = false;
  for (const Group& g : u.groups) {
    bytes += g.comes ? g.bytes() : 0;
    codes += g.comes && codes_values(g) ? wire_bytes(g) : 0;
  }
  u.values = values_->take(bytes);
  if (codes > 0) u.codes = values_->take(codes);
  std::byte *at = u.values, *code = u.codes;
  for (Group& g : u.groups) {
    if (!g.comes) continue;
    const Tensor all(at, g.dtype, {g.count});
    const Range mine = held(g, g.stage.params);
    const Tensor own = homes_.params ? all.elements(mine.first, mine.count) : g.value;
    if (homes_.params)
      if (const auto last = fetch_values(g, own)) u.fetched = last;
    g.whole_value = {all, own};
    if (codes_values(g)) {
      const std::int64_t each = wire_bytes(g) / shards_.size();
      const Tensor wire(code, DType::u8, {wire_bytes(g)});
      g.whole_value = {wire, wire.elements(each * shards_.rank(), each)};
      if (!g.copied) encode(ops_, g.whole_value.second.data, g.value.view({1, g.value.numel()}), kValueBits);
      code += wire_bytes(g);
    }
    bind(g, &Parameter::value, all);
    at += g.bytes();
    near = near || g.copied;
  }
  if (!u.fetched || shards_.size() > 1)
    u.arriving = start(u, [this, fetched = u.fetched](Communicator& c, const Group& g) {
      if (!g.comes || g.copied) return;
      if (fetched) homes_.params->finish(*fetched);
      c.all_gather(g.whole_value.first, g.whole_value.second);
    });
  if (near)
    u.arriving = near_->start([&u](Communicator& c) {
      c.enter(u.name);
      for (const Group& g : u.groups)
        if (g.comes && g.copied) c.all_gather(g.whole_value.first, g.copy);
    });
  live_ += u.elements;
  most_live_ = std::max(most_live_, live_);
}

// Prefetches by DeepSpeed's rule (stage3_prefetch_bucket_size): while fewer elements than that are in flight.
// A unit that is in use is gathered again only after its release.
void ParameterStore::gather_ahead() {
  if (!options_.overlap) return;
  for (const int next : expected_) {
    Unit& n = unit(next);
    if (n.uses > 0 && n.values) return;
    if (n.elements == 0 || n.values) continue;
    if (ahead_ >= options_.prefetch || live_ + n.elements > options_.max_live) return;
    if (homes_.params && units_ahead_ >= options_.units_ahead) return;
    start_gather(n);
    ahead_ += n.elements;
    ++units_ahead_;
  }
}

void ParameterStore::acquire(int index, bool backward) {
  Unit& u = unit(index);
  if (!u.apart && !expected_.empty()) {
    require(expected_.front() == index, "units are used in another order than was said");
    expected_.pop_front();
  }
  if (u.elements > 0 && u.uses == 0) {
    if (!u.values) {
      start_gather(u);
    } else if (!u.apart) {
      ahead_ -= u.elements;
      --units_ahead_;
    }
  }
  ++u.uses;
  if (u.elements > 0 && !u.apart) gather_ahead();
  if (u.arriving) {
    shards_.finish(*u.arriving);
    u.arriving.reset();
    land(u);
  }
  if (u.fetched) homes_.params->finish(*u.fetched);
  u.fetched.reset();
  if (backward && grads_ && trains(index)) take_grads(u);
}

// Returns the same for trained parameters under every stage, because the gradient's norm is added up unit by
// unit.
bool ParameterStore::comes_apart(const Parameter& p) const {
  const bool several = ranks_of(p.dealt).size() > 1;
  if (persists(p)) return false;
  return p.trainable ? several : homes_.params || (several && options_.stage.params == Layout::sharded);
}

// Values and gradients that every rank has in memory need no other rank. In a plan no rank answers: all units
// are wanted.
std::vector<std::uint8_t> ParameterStore::wanted_by_any(const std::vector<std::uint8_t>& mine, bool dealt,
                                                        bool backward) const {
  Communicator& ranks = ranks_of(dealt);
  const std::size_t n = mine.size();
  if (!values_ && !(backward && grads_)) return std::vector<std::uint8_t>(n, 1);
  std::vector<std::uint8_t> all(n * static_cast<std::size_t>(ranks.size()), 1), any(n, 0);
  std::copy(mine.begin(), mine.end(), all.begin() + static_cast<std::ptrdiff_t>(n) * ranks.rank());
  ranks.all_gather_host(std::as_writable_bytes(std::span(all)));
  for (std::size_t i = 0; i < all.size(); ++i) any[i % n] |= all[i];
  return any;
}

void ParameterStore::gather(int index) {
  Unit& u = unit(index);
  if (options_.overlap && u.elements > 0 && u.uses == 0 && !u.values) start_gather(u);
}

// Offloaded gradients become complete, and their squares are summed, in their last reduction.
bool ParameterStore::completes(int index) const {
  return homes_.states && last_micro_ && units_[static_cast<std::size_t>(index)].has_grads[made_];
}

void ParameterStore::settle_apart() {
  settle();
  settle_homes();
}

void ParameterStore::take_grads(Unit& u) {
  require(u.grads == nullptr, "gradients of a unit that is in a backward pass already");
  const auto same = [&](const Reduction& r) { return r.unit == &u; };
  // Give back the memory of the last micro-step's gradients first, so that each micro-step finds the same
  // heap, as in the plan.
  if (first_grads_ || std::any_of(reductions_.begin(), reductions_.end(), same)) settle();
  if (first_grads_) settle_homes();
  first_grads_ = false;
  std::int64_t count = 0;  // the count of each group is a multiple of Arena::kAlign bytes
  for (const Group& g : u.groups) count += g.trained ? g.count : 0;
  u.grads = grads_->take(count * size_of(DType::f32));
  const bool goes_on = u.has_grads[made_] && options_.stage.grads == Layout::replicated;
  if (!goes_on) ops_.run(op::Fill{Tensor(u.grads, DType::f32, {count}), 0});
  std::byte* at = u.grads;
  for (Group& g : u.groups) {
    if (!g.trained) continue;
    g.whole_grad = Tensor(at, DType::f32, {g.count});
    bind(g, &Parameter::grad, g.whole_grad);
    if (goes_on) homes_.states->finish(homes_.states->fetch(g.whole_grad, g.grad_away[made_].at));
    at += g.whole_grad.bytes();
  }
}

void ParameterStore::release(int index) {
  Unit& u = unit(index);
  if (--u.uses > 0) return;
  if (u.values) {
    values_->give_back(u.values);
    u.values = nullptr;
    live_ -= u.elements;
  }
  if (u.grads) grads_->give_back(u.grads);
  u.grads = nullptr;
}

void ParameterStore::reduce(int index, bool complete) {
  Unit& u = unit(index);
  if (!trains(index)) return;
  const Phase before = ops_.phases().turn_to(Phase::reduce);
  const bool last = complete && last_micro_;
  add_up_parts(u, last);
  if (!grads_) {
    if (last && !own_) start_sum(u);
  } else if (!u.grads) {
    require(u.apart, "gradients of a unit that is in no backward pass");
    if (last && across_) reductions_.push_back({&u, 0, nullptr, true, true});
  } else {
    // Gradients of three units may be in memory: waiting, being offloaded, being computed.
    settle_homes();
    advance();
    auto ticket = start(u, [this, last](Communicator& c, const Group& g) { reduce_whole(c, g, last); });
    const auto coded = encode_grads(u);
    if (coded) ticket = start_hop(u, coded, false);
    reductions_.push_back({&u, ticket, u.grads, last && across_, last, coded});
    u.grads = nullptr;
  }
  if (!options_.overlap || (homes_.states && shards_.size() == 1)) settle();
  ops_.phases().turn_to(before);
}

// Adds up, over the tensor group, the gradients that each rank has a part of. Called just before the sum over
// all ranks.
void ParameterStore::add_up_parts(const Unit& u, bool last) const {
  if (tensor_) tensor_->enter(u.name);
  for (const Group& g : u.groups)
    for (const Parameter* p : g.parameters)
      if (p->summed && g.trained && (last || g.stage.grads == Layout::sharded)) tensor_->all_reduce(p->grad);
}

// Reduces gradients in temporary memory: replicated ones when they are complete, sharded ones in every
// micro-step.
void ParameterStore::reduce_whole(Communicator& c, const Group& g, bool last) const {
  if (!g.trained || codes_grads(g) || (g.stage.grads == Layout::replicated && !last)) return;
  const Range mine = stepped(g);
  if (g.stage.states == Layout::replicated)
    c.all_reduce(g.whole_grad);
  else
    c.reduce_scatter(g.whole_grad.elements(mine.first, mine.count), g.whole_grad);
}

void ParameterStore::start_sum(Unit& u) {
  const bool whole = options_.stage.states == Layout::replicated;
  const auto sum = [this, whole](Communicator& c, const Group& g) {
    if (!g.trained) return;
    const Range mine = stepped(g);
    if (whole)
      c.all_reduce(g.grad);
    else
      c.reduce_scatter(g.grad.elements(mine.first, mine.count), g.grad);
  };
  const auto ticket = start(u, sum);
  reductions_.push_back({&u, ticket, nullptr, !whole && across_, true});
}

void ParameterStore::finish(const Reduction& r) {
  shards_.finish(r.ticket);
  if (homes_.states) return send_home(r);
  for (Group& g : r.unit->groups) {
    if (!g.trained || codes_grads(g) || !r.grads) continue;
    const Range mine = held(g, g.stage.grads);
    ops_.run(op::Add{g.grad, g.whole_grad.elements(mine.first, mine.count)});
  }
  if (r.grads) grads_->give_back(r.grads);
  if (r.coded) finish_coded(r);
  if (!r.across) return;
  const auto ticket = across_->start([this, &u = *r.unit](Communicator& c) {
    c.enter(u.name);
    for (const Group& g : u.groups) {
      if (!g.trained) continue;
      const Range mine = stepped(g);
      c.all_reduce(g.grad.elements(mine.first - held(g, g.stage.grads).first, mine.count));
    }
  });
  reductions_.push_back({r.unit, ticket, nullptr, false, true});
}

void ParameterStore::settle() {
  while (!reductions_.empty()) advance();
}

void ParameterStore::advance() {
  during(ops_.phases(), Phase::reduce, [&] {
    for (std::size_t n = reductions_.size(); n > 0; --n) {
      const Reduction first = reductions_.front();
      finish(first);
      reductions_.pop_front();
    }
  });
}

// Both ends hold the table in the same pieces.
void ParameterStore::add_up_ends() {
  if (!ends_) return;
  settle();
  for (const Unit& u : units_)
    for (const Group& g : u.groups) {
      if (!g.trained || !g.at_both_ends) continue;
      const Range mine = stepped(g);
      ends_->enter(u.name);
      ends_->all_reduce(g.grad.elements(mine.first - held(g, g.stage.grads).first, mine.count));
    }
}

// Each rank sums the squares of its part, in every layout, so that the norm, and the clipped gradients, have
// the same bits in all layouts.
double ParameterStore::grad_norm(std::int64_t step) {
  Tensor total(norm_memory_.get(), DType::f64, {1});
  double squares = homes_.states ? sum_of_squares(step) : 0;
  ops_.upload(total, &squares);
  const auto counts = [&](const Parameter& p) { return p.rule.frozen_steps < step && !p.copied; };
  if (own_)
    each_group([&](const Group& g) {
      for (const Parameter* p : g.parameters)
        if (g.trained && counts(*p)) ops_.run(op::SumSquares{total, p->grad});
    });
  else if (!homes_.states)
    each_slice(Layout::sharded, {.grads = true}, [&](const Slice& s) {
      if (counts(*s.parameter)) ops_.run(op::SumSquares{total, s.grad});
    });
  shards_.all_reduce(total);
  if (tensor_) tensor_->all_reduce(total);
  if (pipeline_) pipeline_->all_reduce(total);
  ops_.download(&squares, total);
  return std::sqrt(own_ ? squares * shards_.size() : squares);
}

void ParameterStore::publish() {
  forget_copies();
  if (on_host_) homes_.states->finish(rising_);
  Communicator::Ticket last = 0;
  each_group([&](Group& g) {
    if (!g.trained) return;
    const Range mine = stepped(g);
    const bool whole = g.stage.params == Layout::replicated;
    const Tensor own = whole && g.value ? g.value.elements(mine.first, mine.count) : g.value;
    if (g.dtype != DType::f32 && g.master && g.value) ops_.run(op::Cast{own, g.master});
    if (whole && g.value && g.stage.states == Layout::sharded)
      last = ranks_of(g.dealt).start([&g, own](Communicator& c) {
        c.enter(g.parameters[0]->name);
        c.all_gather(g.value, own);
      });
  });
  if (last > 0) shards_.finish(last);
}

}  // namespace ft
