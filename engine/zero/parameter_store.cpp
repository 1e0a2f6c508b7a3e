#include "engine/zero/parameter_store.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "engine/core/divide.h"
#include "engine/ops/ops.h"

namespace ft {
namespace {

constexpr std::int64_t kAlign = 256;  // bytes; every parameter begins at a multiple of them

Tensor allocate(Ops& ops, Buffer& memory, std::int64_t count, DType dtype) {
  if (count == 0) return {};
  memory = ops.allocate(count * size_of(dtype));
  Tensor t(memory.get(), dtype, {count});
  const bool bytes = dtype == DType::u8;  // filled as floats: its size is a multiple of kAlign
  ops.run(op::Fill{bytes ? Tensor(t.data, DType::f32, {count / size_of(DType::f32)}) : t, 0});
  return t;
}

// Splits `comm` into groups. in_a_row: the ranks with this rank's `number / width`. Otherwise: the ranks with
// this rank's `number % width`.
std::unique_ptr<Communicator> group_of(Communicator& comm, int width, bool in_a_row) {
  if (width == 0 || width == comm.size()) return nullptr;
  std::vector<int> members;
  for (int r = 0; r < comm.size(); ++r)
    if (in_a_row ? r / width == comm.rank() / width : r % width == comm.rank() % width) members.push_back(r);
  return comm.split({.members = std::move(members)});
}

}  // namespace

ParameterStore::ParameterStore(Ops& ops, Communicator& comm, const ZeroOptions& options, StatesOf states,
                               Homes homes, const Grid* grid)
    : ops_(ops),
      comm_(comm),
      tensor_(grid ? grid->tensor() : nullptr),
      pipeline_(grid ? grid->pipeline() : nullptr),
      experts_(grid ? grid->same_experts() : nullptr),
      ends_(grid ? grid->ends() : nullptr),
      options_(options),
      states_(std::move(states)),
      group_(group_of(comm, options.group, true)),
      across_(group_of(comm, options.group, false)),
      shards_(group_ ? *group_ : comm),
      near_(group_of(shards_, options.near > 1 ? options.near : 0, true)),
      far_(group_of(shards_, options.near > 1 ? options.near : 0, false)),
      homes_(std::move(homes)),
      on_host_(homes_.host && homes_.states && ops.device().kind != Device::Kind::cpu) {
  require(options.group == 0 || comm.size() % options.group == 0, "groups of ranks of unequal size");
  require(!across_ || (!homes_.params && !homes_.states), "groups of ranks keep everything on the device");
  require(!homes_.params || shards_.size() == 1 || options.stage.params == Layout::sharded,
          "values live elsewhere only where ranks share them out");
  const bool in_codes = options.coded_values || options.coded_grads || options.near > 1;
  require(!in_codes || options.stage.params == Layout::sharded, "what is whole everywhere does not travel");
  require(!in_codes || (!across_ && !homes_.params), "codes and copies are of values on the device");
  require(!options.coded_grads || !homes_.states, "gradients in codes live on the device");
  require(options.near < 2 || shards_.size() % options.near == 0, "groups of copies of unequal size");
  require(!in_codes || !experts_, "experts of some ranks travel as they are");
  require(!options.delayed || homes_.states, "delayed steps need a home for gradients");
  require(!experts_ || (!group_ && !homes_.params && !homes_.states),
          "ranks with experts of their own keep everything on the device, and form no groups");
}

// Waits for pending work, which writes into this store's memory.
ParameterStore::~ParameterStore() {
  if (beside_) beside_->stop();
  const bool arriving = std::any_of(units_.begin(), units_.end(), [](const Unit& u) { return u.arriving; });
  if (arriving || !reductions_.empty()) comm_.abandon();
  for (const auto& depot : {homes_.params, homes_.states})
    if (depot) depot->abandon();
}

ParameterStore::Range ParameterStore::held(const Group& g, Layout layout) const {
  if (layout == Layout::replicated) return {0, g.count};
  const Communicator& ranks = ranks_of(g.dealt);
  const std::int64_t each = g.count / ranks.size();
  return {each * ranks.rank(), each};
}

int ParameterStore::add_unit(std::string name, const std::vector<Parameter*>& parameters, bool apart) {
  Unit& u = units_.emplace_back();
  u.apart = apart;
  u.name = std::move(name);
  const auto put = [&](bool trained, bool persist) {
    for (Parameter* p : parameters)  // this rank may hold nothing of a parameter
      if (p->trainable == trained && persists(*p) == persist && p->shape.numel() > 0)
        group_for(u, *p).parameters.push_back(p);
  };
  for (const bool trained : {false, true})
    for (const bool persist : {false, true}) put(trained, persist);
  for (Group& g : u.groups) {
    lay_out(g);
    std::int64_t elements = 0;
    for (const Parameter* p : g.parameters) elements += p->shape.numel();
    (g.comes ? u.elements : live_) += elements;
  }
  if (options_.stage.params == Layout::replicated && !homes_.params) live_ = 0;
  return units() - 1;
}

ParameterStore::Group& ParameterStore::group_for(Unit& u, const Parameter& p) {
  const bool persist = persists(p), dealt = p.dealt && experts_;
  const bool coded = goes_coded(p), of_one_type = p.trainable || coded;
  const auto specs = p.trainable ? states(p) : std::span<const StateSpec>();
  for (Group& g : u.groups)
    if (g.trained == p.trainable && g.persist == persist && g.dealt == dealt && g.coded == coded &&
        g.at_both_ends == p.at_both_ends && std::ranges::equal(g.specs, specs) &&
        (!of_one_type || g.dtype == p.dtype))
      return g;
  Group& g = u.groups.emplace_back();
  g.trained = p.trainable;
  g.persist = persist;
  g.dealt = dealt;
  g.at_both_ends = p.at_both_ends;
  g.stage = options_.stage;
  if (persist || ranks_of(dealt).size() == 1) g.stage.params = Layout::replicated;
  g.comes = g.stage.params == Layout::sharded || (homes_.params && !persist);
  g.specs.assign(specs.begin(), specs.end());
  g.coded = coded;
  g.dtype = of_one_type ? p.dtype : DType::u8;
  return g;
}

void ParameterStore::lay_out(Group& g) const {
  const std::int64_t whole = std::lcm(kAlign / size_of(g.dtype), common_block(g.specs)),
                     align = g.coded ? std::lcm(whole, op::kWireBlock) : whole;
  for (const Parameter* p : g.parameters) {
    require(g.dtype == DType::u8 || p->dtype == g.dtype, "trained parameters of a unit have one dtype");
    g.offsets.push_back(g.count);
    g.count += round_up(g.size(*p), align);
  }
  g.count = round_up(g.count, align * ranks_of(g.dealt).size());
}

void ParameterStore::bind(Group& g, Tensor Parameter::*view, Tensor all) {
  for (std::size_t i = 0; i < g.parameters.size(); ++i) {
    Parameter& p = *g.parameters[i];
    p.*view = Tensor(all.data + g.offsets[i] * size_of(all.dtype),
                     all.dtype == DType::u8 ? p.dtype : all.dtype, p.shape);
  }
}

bool ParameterStore::trains(int index) const {
  const auto& groups = units_[static_cast<std::size_t>(index)].groups;
  return std::any_of(groups.begin(), groups.end(), [](const Group& g) { return g.trained; });
}

ParameterStore::Away ParameterStore::reserve_in(const std::shared_ptr<Depot>& depot, std::int64_t bytes) {
  return {depot.get(), depot->reserve(bytes)};
}

void ParameterStore::reserve(TransientMemory transient) {
  each_group([&](Group& g) {
    const std::int64_t count = held(g, g.stage.params).count;
    if (homes_.params && g.comes && !g.trained)
      reserve_frozen(g);
    else if (homes_.params && g.comes)
      g.value_away = reserve_in(homes_.params, count * size_of(g.dtype));
    else
      g.value = allocate(ops_, g.value_memory, count, g.dtype);
    if (!g.comes) bind(g, &Parameter::value, g.value);
    if (g.comes && near_) {
      const DType type = codes_values(g) ? DType::u8 : g.dtype;
      g.copy = allocate(ops_, g.copy_memory, wire_bytes(g) / size_of(type) / near_->size(), type);
    }
    if (g.trained) reserve_trained(g);
  });
  // An endless heap allocates nothing and returns addresses only.
  const auto heap = [&](Ops& where, std::optional<Heap>& h, bool wanted, std::int64_t bytes) {
    if (wanted) h.emplace(where.allocate(bytes == Heap::kEndless ? 0 : bytes), bytes);
  };
  heap(ops_, values_, homes_.params || options_.stage.params == Layout::sharded, transient.values);
  heap(ops_, grads_, homes_.states || options_.stage.grads == Layout::sharded, transient.grads);
  heap(stepping(ops_), windows_, homes_.params || homes_.states, transient.windows);
  norm_memory_ = ops_.allocate((1 + norms_) * size_of(DType::f64));
  for (const auto& depot : {homes_.params, homes_.states})
    if (depot) depot->open();
  if (steps_early()) beside_.emplace();
}

void ParameterStore::reserve_trained(Group& g) {
  const Range mine = stepped(g);
  const auto state_home = [&](std::int64_t count, DType dtype) {
    return reserve_in(homes_.states, count * size_of(dtype));
  };
  if (g.dtype == DType::f32 && (g.value_away || !on_host_)) {  // the value is its own master
    g.master_away = g.value_away;
    if (!g.value_away)
      g.master = g.stage.params == Layout::sharded ? g.value : g.value.elements(mine.first, mine.count);
  } else if (homes_.states) {
    g.master_away = state_home(mine.count, DType::f32);
    if (on_host_ && homes_.states->home() == Home::host && !g.value_away && g.dtype != DType::f32)
      g.passing = state_home(mine.count, g.dtype);
  } else {
    g.master = allocate(ops_, g.master_memory, mine.count, DType::f32);
  }
  g.first_norm = norms_;
  norms_ += static_cast<std::int64_t>(g.parameters.size());
  const std::int64_t grads = held(g, g.stage.grads).count;
  if (homes_.states) {
    for (int k = 0; k < (options_.delayed ? 2 : 1); ++k) g.grad_away[k] = state_home(grads, DType::f32);
  } else {
    g.grad = allocate(ops_, g.grad_memory, grads, DType::f32);
    if (g.stage.grads == Layout::replicated) bind(g, &Parameter::grad, g.grad);
  }
  require(!homes_.states || !want_whole_gradient(g.specs), "whole gradients live on the device");
  for (const StateSpec& s : g.specs) {
    const std::int64_t count = s.whole() ? whole_elements(g, s, g.parameters.size()) : s.elements(mine.count);
    Buffer& memory = g.state_memory.emplace_back();
    g.states.push_back(homes_.states ? Tensor{} : allocate(ops_, memory, count, s.dtype));
    g.states_away.push_back(homes_.states ? state_home(count, s.dtype) : Away{});
  }
}

// Reads a group's elements `range` into `held`: in place on a CPU, through host memory otherwise.
void ParameterStore::read(const Group& g, Tensor held, Range range, const ReadParameter& source) {
  if (ops_.device().kind == Device::Kind::cpu) return read_to_host(g, held, range, source);
  std::vector<std::byte> staging;
  const ReadParameter upload = [&](const Parameter& p, Tensor here, std::int64_t first) {
    staging.resize(static_cast<std::size_t>(here.bytes()));
    source(p, {staging.data(), here.dtype, here.shape}, first);
    ops_.upload(here, staging.data());
    ops_.synchronize();
  };
  read_to_host(g, held, range, upload);
}

void ParameterStore::read_to_host(const Group& g, Tensor held, Range range, const ReadParameter& read) {
  for (std::size_t i = 0; i < g.parameters.size(); ++i) {
    const Parameter& p = *g.parameters[i];
    const std::int64_t from = std::max(g.offsets[i], range.first);
    const std::int64_t count = std::min(g.offsets[i] + g.size(p), range.first + range.count) - from;
    if (count <= 0) continue;
    // `first` counts elements of the parameter. Ranges begin and end at multiples of kAlign bytes.
    const std::int64_t size = g.dtype == DType::u8 ? size_of(p.dtype) : 1,
                       first = (from - g.offsets[i]) / size;
    const Tensor here(held.data + (from - range.first) * size_of(held.dtype),
                      g.dtype == DType::u8 ? p.dtype : held.dtype, {count / size});
    read(p, here, first);
  }
}

void ParameterStore::load(const ReadParameter& source) {
  each_group([](Group& g) { g.copied = false; });
  const bool elsewhere = homes_.params || homes_.states;
  each_group([&](Group& g) {
    if (!g.pieces.empty())
      load_frozen(g, source);
    else if (!g.trained)
      read(g, g.value, held(g, g.stage.params), source);
    else if (!elsewhere)
      read(g, g.master, stepped(g), source);
  });
  if (elsewhere) restore_masters(source);
  publish();
}

// Copies a few MiB at a time, reading the next piece while the last is put.
void ParameterStore::load_away(const Group& g, const Away& to, Range mine, DType dtype,
                               const ReadParameter& source) {
  const std::int64_t kPiece = (std::int64_t{4} << 20) / size_of(dtype);
  Depot& depot = to.depot->for_host();
  std::vector<std::byte> pieces[2];
  Depot::Ticket puts[2] = {};
  for (std::int64_t at = 0, turn = 0; at < mine.count; at += kPiece, turn ^= 1) {
    const std::int64_t count = std::min(kPiece, mine.count - at);
    const std::int64_t bytes = count * size_of(dtype), place = to.at + at * size_of(dtype);
    depot.finish(puts[turn]);
    pieces[turn].assign(static_cast<std::size_t>(bytes), std::byte{});
    read_to_host(g, {pieces[turn].data(), dtype, {count}}, {mine.first + at, count}, source);
    if (std::byte* there = depot.in_place(place))
      std::memcpy(there, pieces[turn].data(), static_cast<std::size_t>(bytes));
    else
      puts[turn] = depot.put(place, {pieces[turn].data(), dtype, {count}});
  }
  for (const Depot::Ticket t : puts) depot.finish(t);
}

void ParameterStore::restore_gradients(const ReadParameter& source) {
  for (Unit& u : units_)
    for (Group& g : u.groups) {
      if (!g.trained) continue;
      load_away(g, g.grad_away[made_], held(g, g.stage.grads), DType::f32, source);
      u.has_grads[made_] = true;
    }
}

StoreMemory ParameterStore::memory() const {
  StoreMemory m;
  auto bytes = [](const Tensor& t, const Buffer& memory) { return memory ? t.bytes() : 0; };
  for (const Unit& u : units_)
    for (const Group& g : u.groups) {
      (g.trained ? m.trained : m.weights) += bytes(g.value, g.value_memory);
      m.optimizer += bytes(g.master, g.master_memory);
      m.gradients += bytes(g.grad, g.grad_memory);
      m.communication += bytes(g.copy, g.copy_memory);
      for (std::size_t k = 0; k < g.states.size(); ++k) m.optimizer += bytes(g.states[k], g.state_memory[k]);
    }
  const TransientMemory t = transient();
  const bool one = ops_.device().kind == Device::Kind::cpu;  // the device's memory is the host's
  m.communication += t.values + t.grads + comm_.memory();
  (on_host_ ? m.host : m.communication) += t.windows;
  for (const auto& depot : {homes_.params, homes_.states}) {
    if (!depot) continue;
    (one ? m.communication : m.host) += depot->memory();
    (depot->home() == Home::file ? m.elsewhere : one ? m.optimizer : m.host) += depot->size();
  }
  return m;
}

Moved ParameterStore::moved() const {
  Moved m{.to_device = uploaded_};
  for (const auto& depot : {homes_.params, homes_.states})
    if (depot) m = m + depot->moved();
  return m;
}

std::string ParameterStore::moved_by() const {
  for (const auto& depot : {homes_.params, homes_.states})
    if (depot && !depot->way().empty()) return depot->way();
  return "";
}

TransientMemory ParameterStore::transient() const {
  const auto size = [](const std::optional<Heap>& h) { return h ? h->size() : 0; };
  return {size(values_), size(grads_), size(windows_)};
}

}  // namespace ft
