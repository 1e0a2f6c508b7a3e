#include "engine/zero/store/reduction.h"

#include <algorithm>
#include <cmath>

#include "engine/zero/store/depot_gradients.h"
#include "engine/zero/store/device_gradients.h"

namespace ft::zero {
namespace {

std::unique_ptr<GradientHome> make_home(Ops& ops, const Layout& layout, const std::shared_ptr<Depot>& depot,
                                        const SquareSums& sums) {
  if (depot) return std::make_unique<DepotGradients>(ops, layout, depot, sums);
  return std::make_unique<DeviceGradients>(ops, layout);
}

}  // namespace

Reduction::Reduction(Ops& ops, const Layout& layout, const std::shared_ptr<Depot>& depot)
    : ops_(ops),
      layout_(layout),
      ranks_(layout.ranks()),
      options_(layout.options()),
      home_(make_home(ops, layout, depot, sums_)),
      offloads_(depot != nullptr) {}

void Reduction::reserve_complete(std::int64_t bytes) {
  if (offloads_ || options_.stage.grads == Placement::sharded)
    complete_.heap.emplace(ops_.allocate(bytes == Heap::kEndless ? 0 : bytes), bytes);
  complete_.tensors.resize(static_cast<std::size_t>(layout_.groups()));
  bound_.resize(static_cast<std::size_t>(layout_.units()));
  sums_.reserve(ops_, layout_.trained_parameters());
}

void Reduction::begin_step(bool own) {
  require(!own || (options_.stage.grads == Placement::replicated && !ranks_.across),
          "own gradients are complete");
  settle();
  home_->begin_step();
  own_ = own;
}

void Reduction::begin_micro_step(bool last) {
  last_micro_ = last;
  first_grads_ = true;
}

// Gives back the memory of the last micro-step's gradients first, so that each micro-step finds the same
// heap, as in the plan.
void Reduction::acquire(int index) {
  const Unit& u = layout_.unit(index);
  if (!has_temporary() || !u.trained()) return;
  const std::byte*& bound = bound_[static_cast<std::size_t>(index)];
  require(bound == nullptr, "gradients of a unit that is in a backward pass already");
  const auto same = [&](const Pending& r) { return r.unit == &u; };
  if (first_grads_ || std::ranges::any_of(pending_, same)) finish_all();
  if (first_grads_) home_->settle(complete_);
  first_grads_ = false;
  std::int64_t count = 0;  // the count of each group is a multiple of Arena::kAlign bytes
  for (const Group& g : u.groups) count += g.trained ? g.count : 0;
  std::byte* at = complete_.heap->take(count * size_of(DType::f32));
  bound = at;
  const Tensor all(at, DType::f32, {count});
  for (const Group& g : u.groups) {
    if (!g.trained) continue;
    const Tensor& own = complete_.tensors[static_cast<std::size_t>(g.index)] =
        Tensor(at, DType::f32, {g.count});
    bind(g, &Parameter::grad, own);
    at += own.bytes();
  }
  if (!home_->fetch(u, complete_)) ops_.run(op::Fill{all, 0});
}

void Reduction::release(int index) {
  const std::byte*& bound = bound_[static_cast<std::size_t>(index)];
  if (bound) complete_.heap->give_back(bound);
  bound = nullptr;
}

void Reduction::reduce(int index, bool complete) {
  const Unit& u = layout_.unit(index);
  if (!u.trained()) return;
  const Phase before = ops_.phases().turn_to(Phase::reduce);
  const bool last = complete && last_micro_;
  if (last) home_->complete(u);
  add_up_parts(u, last);
  if (!has_temporary()) {
    if (last && !own_) start_sum(u);
  } else if (bound_[static_cast<std::size_t>(index)]) {
    start_complete(u, last);
  } else {
    require(u.on_demand, "gradients of a unit that is in no backward pass");
    if (last && ranks_.across) pending_.push_back({&u, 0, [this, &u] { start_across(u); }});
  }
  if (!options_.overlap || (offloads_ && ranks_.shards.size() == 1)) finish_all();
  ops_.phases().turn_to(before);
}

// Adds up, over the tensor group, the gradients that each rank has a part of. Called just before the sum over
// all ranks.
void Reduction::add_up_parts(const Unit& u, bool last) const {
  if (ranks_.tensor) ranks_.tensor->enter(u.name);
  for (const Group& g : u.groups)
    for (const Parameter* p : g.parameters)
      if (p->summed && g.trained && (last || g.stage.grads == Placement::sharded))
        ranks_.tensor->all_reduce(p->grad);
}

// Adds up gradients that every rank has complete on the device.
void Reduction::start_sum(const Unit& u) {
  const bool replicated = options_.stage.states == Placement::replicated;
  const auto ticket = layout_.start(u, [this, replicated](Communicator& c, const Group& g) {
    if (!g.trained) return;
    const Tensor all = own(g);
    const Range mine = layout_.updated(g);
    if (replicated)
      c.all_reduce(all);
    else
      c.reduce_scatter(all.elements(mine.first, mine.count), all);
  });
  pending_.push_back({&u, ticket, {}});
  if (!replicated && ranks_.across) pending_.back().then = [this, &u] { start_across(u); };
}

// Adds up gradients in temporary memory. It holds at most three units' gradients: waiting, being offloaded,
// being computed.
void Reduction::start_complete(const Unit& u, bool last) {
  home_->settle(complete_);
  advance();
  auto ticket = layout_.start(u, [this, last](Communicator& c, const Group& g) { sum_complete(c, g, last); });
  const auto coded = CodedGradients::encode(ops_, ranks_, u, complete_);
  if (coded) ticket = coded->start_first();
  const std::byte*& bound = bound_[static_cast<std::size_t>(u.index)];
  const std::byte* taken = bound;
  bound = nullptr;
  pending_.push_back({&u, ticket, [this, &u, taken, last, coded] { arrive(u, taken, last, coded); }});
}

// Replicated gradients are added up when they are complete, sharded ones in every micro-step.
void Reduction::sum_complete(Communicator& c, const Group& g, bool last) const {
  if (!g.trained || g.coded_grads || (g.stage.grads == Placement::replicated && !last)) return;
  const Tensor& all = complete_.of(g);
  const Range mine = layout_.updated(g);
  if (g.stage.states == Placement::replicated)
    c.all_reduce(all);
  else
    c.reduce_scatter(all.elements(mine.first, mine.count), all);
}

void Reduction::arrive(const Unit& u, const std::byte* taken, bool last,
                       const std::shared_ptr<CodedGradients>& coded) {
  home_->keep(u, complete_, taken, last);
  if (coded && coded->has_second())
    pending_.push_back({&u, coded->start_second(), [this, coded] { coded->add_to(*home_, complete_); }});
  else if (coded)
    coded->add_to(*home_, complete_);
  if (last && ranks_.across) start_across(u);
  if (last && kept_) kept_(u);
}

// Adds up this rank's gradients over the groups of ranks.
void Reduction::start_across(const Unit& u) {
  const auto ticket = ranks_.across->start([this, &u](Communicator& c) {
    c.enter(u.name);
    for (const Group& g : u.groups) {
      if (!g.trained) continue;
      const Range mine = layout_.updated(g);
      c.all_reduce(own(g).elements(mine.first - layout_.held(g, g.stage.grads).first, mine.count));
    }
  });
  pending_.push_back({&u, ticket, {}});
}

// Takes every reduction to its next wait.
void Reduction::advance() {
  during(ops_.phases(), Phase::reduce, [&] {
    for (std::size_t n = pending_.size(); n > 0; --n) {
      const Pending& first = pending_.front();  // stays valid while more are added
      ranks_.shards.finish(first.ticket);
      if (first.then) first.then();
      pending_.pop_front();
    }
  });
}

void Reduction::finish_all() {
  while (!pending_.empty()) advance();
}

void Reduction::settle() {
  for (const Unit& u : layout_.all()) home_->complete(u);
  finish_all();
  home_->settle(complete_);
}

// Both ends hold the table in the same pieces.
void Reduction::add_up_ends() {
  if (!ranks_.ends) return;
  settle();
  for (const Unit& u : layout_.all())
    for (const Group& g : u.groups) {
      if (!g.trained || !g.at_both_ends) continue;
      const Range mine = layout_.updated(g);
      ranks_.ends->enter(u.name);
      ranks_.ends->all_reduce(own(g).elements(mine.first - layout_.held(g, g.stage.grads).first, mine.count));
    }
}

// Each rank sums the squares of its part, in every placement, so that the norm, and the clipped gradients,
// have the same bits in all of them.
double Reduction::norm(std::int64_t step, const EachSlice& each_slice) {
  settle();
  const std::optional<double> offloaded = home_->squares(step);
  const Tensor total = sums_.total();
  double squares = offloaded.value_or(0);
  ops_.upload(total, &squares);
  const auto counts = [&](const Parameter& p) { return p.rule.frozen_steps < step && !p.copied; };
  if (own_)
    layout_.each_group([&](const Group& g) {
      for (const Parameter* p : g.parameters)
        if (g.trained && counts(*p)) ops_.run(op::SumSquares{total, p->grad});
    });
  else if (!offloaded)
    each_slice([&](const Slice& s) {
      if (counts(*s.parameter)) ops_.run(op::SumSquares{total, s.grad});
    });
  ranks_.shards.all_reduce(total);
  if (ranks_.tensor) ranks_.tensor->all_reduce(total);
  if (ranks_.pipeline) ranks_.pipeline->all_reduce(total);
  ops_.download(&squares, total);
  return std::sqrt(own_ ? squares * ranks_.shards.size() : squares);
}

void Reduction::with_complete(const Group& g, const std::function<void(const Tensor&)>& f) {
  const Range mine = layout_.updated(g);
  const Tensor kept = own(g);
  if (own_ || g.stage.states == Placement::replicated) return f(kept);
  if (g.stage.grads == Placement::replicated) {
    ranks_.shards.all_gather(kept, kept.elements(mine.first, mine.count));
    return f(kept);
  }
  const Tensor all(complete_.heap->take(g.count * size_of(DType::f32)), DType::f32, {g.count});
  ranks_.shards.all_gather(all, kept);
  f(all);
  complete_.heap->give_back(all.data);
}

}  // namespace ft::zero
