// What a ParameterStore does in a step: gathers values, ahead of their use where it may, and reduces
// gradients while the next unit is computed. Everything is started in the order of the program, which all
// ranks run alike.
#include <algorithm>
#include <cmath>

#include "engine/dist/parameter_store.h"

namespace ft {

void ParameterStore::begin_step() {
  settle();
  each_group([&](Group& g) {
    if (g.grad) ops_.run(op::Fill{g.grad, 0});
  });
}

void ParameterStore::expect(const std::vector<int>& units) {
  require(ahead_ == 0, "units were gathered for a pass that did not use them");
  expected_.assign(units.begin(), units.end());
}

void ParameterStore::start_gather(Unit& u) {
  std::int64_t bytes = 0;
  for (const Group& g : u.groups)
    if (g.stage.params == Layout::sharded) bytes += g.bytes();
  u.values = values_->take(bytes);
  std::vector<std::pair<Tensor, Tensor>> all_and_mine;
  std::byte* at = u.values;
  for (Group& g : u.groups) {
    if (g.stage.params == Layout::replicated) continue;
    all_and_mine.emplace_back(Tensor(at, g.dtype, {g.count}), g.value);
    bind(g, &Parameter::value, all_and_mine.back().first);
    at += g.bytes();
  }
  u.arriving = shards_.start([all_and_mine, &u](Communicator& c) {
    c.enter(u.name);
    for (const auto& [all, mine] : all_and_mine) c.all_gather(all, mine);
  });
  live_ += u.elements;
  most_live_ = std::max(most_live_, live_);
}

// DeepSpeed's rule (stage3_prefetch_bucket_size): while less than that is on its way. A unit that is in use
// is gathered again only after it.
void ParameterStore::gather_ahead() {
  if (!options_.overlap) return;
  for (const int next : expected_) {
    Unit& n = unit(next);
    if (n.uses > 0 && n.values) return;
    if (n.elements == 0 || n.values) continue;
    if (ahead_ >= options_.prefetch || live_ + n.elements > options_.max_live) return;
    start_gather(n);
    ahead_ += n.elements;
  }
}

void ParameterStore::acquire(int index, bool backward) {
  Unit& u = unit(index);
  if (!expected_.empty()) {
    require(expected_.front() == index, "units are used in another order than was said");
    expected_.pop_front();
  }
  if (u.elements > 0 && u.uses == 0) {
    if (u.values)
      ahead_ -= u.elements;
    else
      start_gather(u);
  }
  ++u.uses;
  if (u.elements > 0) gather_ahead();
  if (u.arriving) {
    shards_.finish(*u.arriving);
    u.arriving.reset();
  }
  if (backward && options_.stage.grads == Layout::sharded && trains(index)) take_grads(u);
}

void ParameterStore::take_grads(Unit& u) {
  require(u.grads == nullptr, "gradients of a unit that is in a backward pass already");
  const auto same = [&](const Reduction& r) { return r.unit == &u; };
  // What the micro-step before left is given back first, so that each finds the same heap, as the plan did.
  if (first_grads_ || std::any_of(reductions_.begin(), reductions_.end(), same)) settle();
  first_grads_ = false;
  std::int64_t count = 0;  // each group's is a multiple of Arena::kAlign bytes
  for (const Group& g : u.groups) count += g.trained ? g.count : 0;
  u.grads = grads_->take(count * size_of(DType::f32));
  ops_.run(op::Fill{Tensor(u.grads, DType::f32, {count}), 0});
  std::byte* at = u.grads;
  for (Group& g : u.groups) {
    if (!g.trained) continue;
    g.whole_grad = Tensor(at, DType::f32, {g.count});
    bind(g, &Parameter::grad, g.whole_grad);
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
  const bool last = complete && last_micro_;
  if (options_.stage.grads == Layout::replicated) {
    if (last) start_sum(u);
  } else {
    settle();  // whole gradients of one unit may wait while another's are made, not more
    const auto ticket = shards_.start([this, &u](Communicator& c) {
      c.enter(u.name);
      for (const Group& g : u.groups) {
        if (!g.trained) continue;
        const Range mine = held(g, g.stage.grads);
        c.reduce_scatter(g.whole_grad.elements(mine.first, mine.count), g.whole_grad);
      }
    });
    reductions_.push_back({&u, ticket, u.grads, last && across_});
    u.grads = nullptr;
  }
  if (!options_.overlap) settle();
}

void ParameterStore::start_sum(Unit& u) {
  const bool whole = options_.stage.states == Layout::replicated;
  Communicator& ranks = whole ? comm_ : shards_;
  const auto ticket = ranks.start([this, &u, whole](Communicator& c) {
    c.enter(u.name);
    for (const Group& g : u.groups) {
      if (!g.trained) continue;
      const Range mine = stepped(g);
      if (whole)
        c.all_reduce(g.grad);
      else
        c.reduce_scatter(g.grad.elements(mine.first, mine.count), g.grad);
    }
  });
  reductions_.push_back({&u, ticket, nullptr, !whole && across_});
}

void ParameterStore::finish(const Reduction& r) {
  shards_.finish(r.ticket);
  for (Group& g : r.unit->groups) {
    if (!g.trained || !r.grads) continue;
    const Range mine = held(g, g.stage.grads);
    ops_.run(op::Add{g.grad, g.whole_grad.elements(mine.first, mine.count)});
  }
  if (r.grads) grads_->give_back(r.grads);
  if (!r.across) return;
  const auto ticket = across_->start([this, &u = *r.unit](Communicator& c) {
    c.enter(u.name);
    for (const Group& g : u.groups) {
      if (!g.trained) continue;
      const Range mine = stepped(g);
      c.all_reduce(g.grad.elements(mine.first - held(g, g.stage.grads).first, mine.count));
    }
  });
  reductions_.push_back({r.unit, ticket, nullptr, false});
}

void ParameterStore::settle() {
  while (!reductions_.empty()) {
    const Reduction first = reductions_.front();
    finish(first);
    reductions_.pop_front();
  }
}

// Every rank sums its part, in every layout, so that the norm, and what is clipped by it, has the same bits
// in all of them.
double ParameterStore::grad_norm() {
  Tensor total(norm_memory_.get(), DType::f64, {1});
  const double zero = 0;
  ops_.upload(total, &zero);
  each_slice(Layout::sharded, [&](const Slice& s) { ops_.run(op::SumSquares{total, s.grad}); });
  shards_.all_reduce(total);
  double squares = 0;
  ops_.download(&squares, total);
  return std::sqrt(squares);
}

FlatSlice ParameterStore::flat_slice(const Group& g, std::int64_t from, std::int64_t to) const {
  const std::int64_t first = from - stepped(g).first, count = to - from;
  FlatSlice s{
      g.master.elements(first, count), g.grad.elements(from - held(g, g.stage.grads).first, count), {}};
  for (std::size_t k = 0; k < g.specs.size(); ++k)
    s.states.push_back(g.states[k].elements(first / g.specs[k].block, g.specs[k].elements(count)));
  return s;
}

void ParameterStore::each_slice(Layout layout, const std::function<void(const Slice&)>& visit) {
  settle();
  each_group([&](Group& g) {
    if (!g.trained) return;
    const Range mine = held(g, layout);
    for (std::size_t i = 0; i < g.parameters.size(); ++i) {
      const std::int64_t begin = g.offsets[i], end = begin + g.parameters[i]->shape.numel();
      const std::int64_t from = std::max(begin, mine.first), to = std::min(end, mine.first + mine.count);
      if (from >= to) continue;
      visit({flat_slice(g, from, to), g.parameters[i], from - begin, to - from});
    }
  });
}

void ParameterStore::each_run(const std::function<void(const FlatRun&)>& visit) {
  settle();
  for (const Unit& u : units_)
    for (const Group& g : u.groups) {
      if (!g.trained) continue;
      const Range mine = stepped(g);
      const std::size_t n = g.parameters.size();
      for (std::size_t i = 0, next = 0; i < n; i = next) {
        const bool decays = g.parameters[i]->decays;
        while (next < n && g.parameters[next]->decays == decays) ++next;
        const std::int64_t end = next < n ? g.offsets[next] : g.count;
        const std::int64_t from = std::max(g.offsets[i], mine.first),
                           to = std::min(end, mine.first + mine.count);
        if (from < to) visit({flat_slice(g, from, to), u.name, decays});
      }
    }
}

void ParameterStore::publish() {
  Communicator::Ticket last = 0;
  each_group([&](Group& g) {
    if (!g.trained) return;
    const Range mine = stepped(g);
    const bool whole = g.stage.params == Layout::replicated;
    const Tensor own = whole ? g.value.elements(mine.first, mine.count) : g.value;
    if (g.dtype != DType::f32) ops_.run(op::Cast{own, g.master});
    if (whole && g.stage.states == Layout::sharded)
      last = shards_.start([&g, own](Communicator& c) {
        c.enter(g.parameters[0]->name);
        c.all_gather(g.value, own);
      });
  });
  if (last > 0) shards_.finish(last);
}

}  // namespace ft
