#include "engine/zero/parameter_store.h"

#include <utility>

namespace ft {
namespace {

void check(const ZeroOptions& options, const Homes& homes, const zero::StoreRanks& ranks) {
  require(!ranks.across || (!homes.params && !homes.states), "groups of ranks keep everything on the device");
  require(!homes.params || ranks.shards.size() == 1 || options.stage.params == Placement::sharded,
          "values are offloaded only if ranks shard them");
  const bool in_codes = options.coded_values || options.coded_grads || options.near > 1;
  require(!in_codes || options.stage.params == Placement::sharded, "replicated values are not sent");
  require(!in_codes || (!ranks.across && !homes.params), "codes and copies are of values on the device");
  require(!options.coded_grads || !homes.states, "gradients in codes are on the device");
  require(!in_codes || !ranks.experts, "experts of some ranks are not sent in codes");
  require(!options.delayed || homes.states, "delayed steps need a home for gradients");
  require(!ranks.experts || (!homes.params && !homes.states),
          "ranks with experts of their own keep everything on the device");
}

}  // namespace

ParameterStore::ParameterStore(Ops& ops, Communicator& comm, const ZeroOptions& options, StatesOf states,
                               Homes homes, const Grid* grid)
    : ops_(ops),
      homes_(std::move(homes)),
      ranks_(comm, options, grid),
      layout_(ranks_, options, std::move(states), homes_.params != nullptr),
      residency_(ops, layout_, homes_.params),
      reduction_(ops, layout_, homes_.states),
      stepping_(ops, layout_, homes_, residency_, reduction_),
      parts_(ops, layout_, stepping_, reduction_.home()),
      on_demand_(layout_, residency_, reduction_) {
  check(options, homes_, ranks_);
}

// Waits for pending work, which writes into this store's memory.
ParameterStore::~ParameterStore() {
  stepping_.stop();
  if (residency_.pending() || reduction_.pending()) ranks_.all.abandon();
  homes_.each_depot([](Depot& depot) { depot.abandon(); });
}

void ParameterStore::reserve(TransientMemory transient) {
  layout_.each_group([&](const zero::Group& g) {
    residency_.reserve(g);
    if (!g.trained) return;
    stepping_.reserve(g);
    reduction_.reserve(g);
  });
  residency_.reserve_gathered(transient.values);
  reduction_.reserve_complete(transient.grads);
  stepping_.reserve_windows(transient.windows);
  homes_.each_depot([](Depot& depot) { depot.open(); });
}

void ParameterStore::load(const ReadParameter& source) {
  const bool offloads = homes_.params || homes_.states;
  layout_.each_group([&](const zero::Group& g) {
    if (!g.trained)
      residency_.load(g, source);
    else if (!offloads)
      stepping_.load(g, source);
  });
  if (offloads) parts_.restore_masters(source);
  publish();
}

void ParameterStore::begin_step(std::optional<EarlyStep> early, bool own) {
  stepping_.finish_early();
  reduction_.begin_step(own);
  stepping_.begin_step(std::move(early));
  residency_.forget_copies();
}

void ParameterStore::acquire(int unit, bool backward) {
  residency_.acquire(unit);
  if (backward) reduction_.acquire(unit);
}

void ParameterStore::release(int unit) {
  if (residency_.release(unit)) reduction_.release(unit);
}

double ParameterStore::grad_norm(std::int64_t step) {
  return reduction_.norm(step, [&](const std::function<void(const Slice&)>& visit) {
    stepping_.each_slice(Placement::sharded, {.grads = true}, visit);
  });
}

StoreMemory ParameterStore::memory() const {
  StoreMemory m;
  residency_.add_to(m);
  reduction_.add_to(m);
  stepping_.add_to(m);
  m.communication += residency_.transient() + reduction_.transient() + ranks_.all.memory();
  const bool one = ops_.device().kind == Device::Kind::cpu;  // the device's memory is the host's
  homes_.each_depot([&](const Depot& depot) {
    (one ? m.communication : m.host) += depot.memory();
    (depot.home() == Home::file ? m.elsewhere : one ? m.optimizer : m.host) += depot.size();
  });
  return m;
}

TransientMemory ParameterStore::transient() const {
  return {residency_.transient(), reduction_.transient(), stepping_.transient()};
}

Moved ParameterStore::moved() const {
  Moved m{.to_device = stepping_.uploaded()};
  homes_.each_depot([&](const Depot& depot) { m = m + depot.moved(); });
  return m;
}

std::string ParameterStore::moved_by() const {
  std::string way;
  homes_.each_depot([&](const Depot& depot) { way = way.empty() ? depot.way() : way; });
  return way;
}

}  // namespace ft
