#include "engine/dist/parameter_store.h"

#include <algorithm>
#include <numeric>

#include "engine/core/divide.h"

namespace ft {
namespace {

constexpr std::int64_t kAlign = 256;  // bytes; every parameter begins at a multiple of them

Tensor allocate(Ops& ops, Buffer& memory, std::int64_t count, DType dtype) {
  if (count == 0) return {};
  memory = ops.allocate(count * size_of(dtype));
  Tensor t(memory.get(), dtype, {count});
  const bool bytes = dtype == DType::u8;  // whole floats: a multiple of kAlign
  ops.run(op::Fill{bytes ? Tensor(t.data, DType::f32, {count / size_of(DType::f32)}) : t, 0});
  return t;
}

// The ranks of `comm` with this one's `number / width` (in a row), or with its `number % width`.
std::unique_ptr<Communicator> group_of(Communicator& comm, int width, bool in_a_row) {
  if (width == 0 || width == comm.size()) return nullptr;
  std::vector<int> members;
  for (int r = 0; r < comm.size(); ++r)
    if (in_a_row ? r / width == comm.rank() / width : r % width == comm.rank() % width) members.push_back(r);
  return comm.split(std::move(members));
}

}  // namespace

ParameterStore::ParameterStore(Ops& ops, Communicator& comm, const ZeroOptions& options, StatesOf states)
    : ops_(ops),
      comm_(comm),
      options_(options),
      states_(std::move(states)),
      group_(group_of(comm, options.group, true)),
      across_(group_of(comm, options.group, false)),
      shards_(group_ ? *group_ : comm) {
  require(options.group == 0 || comm.size() % options.group == 0, "groups of ranks of unequal size");
}

// What is under way writes into this memory.
ParameterStore::~ParameterStore() {
  const bool arriving = std::any_of(units_.begin(), units_.end(), [](const Unit& u) { return u.arriving; });
  if (arriving || !reductions_.empty()) comm_.abandon();
}

ParameterStore::Range ParameterStore::held(const Group& g, Layout layout) const {
  if (layout == Layout::replicated) return {0, g.count};
  const std::int64_t each = g.count / shards_.size();
  return {each * shards_.rank(), each};
}

int ParameterStore::add_unit(std::string name, const std::vector<Parameter*>& parameters) {
  Unit& u = units_.emplace_back();
  u.name = std::move(name);
  const auto put = [&](bool trained, bool persist) {
    for (Parameter* p : parameters)
      if (p->trainable == trained && persists(*p) == persist) group_for(u, *p).parameters.push_back(p);
  };
  for (const bool trained : {false, true})
    for (const bool persist : {false, true}) put(trained, persist);
  for (Group& g : u.groups) {
    lay_out(g);
    std::int64_t elements = 0;
    for (const Parameter* p : g.parameters) elements += p->shape.numel();
    (g.stage.params == Layout::sharded ? u.elements : live_) += elements;
  }
  if (options_.stage.params == Layout::replicated) live_ = 0;
  return units() - 1;
}

ParameterStore::Group& ParameterStore::group_for(Unit& u, const Parameter& p) {
  const bool persist = persists(p);
  const auto specs = p.trainable ? states(p) : std::span<const StateSpec>();
  for (Group& g : u.groups)
    if (g.trained == p.trainable && g.persist == persist && std::ranges::equal(g.specs, specs)) return g;
  Group& g = u.groups.emplace_back();
  g.trained = p.trainable;
  g.persist = persist;
  g.stage = options_.stage;
  if (persist) g.stage.params = Layout::replicated;
  g.specs.assign(specs.begin(), specs.end());
  g.dtype = p.trainable ? p.dtype : DType::u8;
  return g;
}

void ParameterStore::lay_out(Group& g) const {
  const std::int64_t align = std::lcm(kAlign / size_of(g.dtype), common_block(g.specs));
  for (const Parameter* p : g.parameters) {
    require(g.dtype == DType::u8 || p->dtype == g.dtype, "trained parameters of a unit have one dtype");
    g.offsets.push_back(g.count);
    g.count += round_up(g.size(*p), align);
  }
  g.count = round_up(g.count, align * shards_.size());
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

void ParameterStore::reserve(TransientMemory transient) {
  each_group([&](Group& g) {
    g.value = allocate(ops_, g.value_memory, held(g, g.stage.params).count, g.dtype);
    if (g.stage.params == Layout::replicated) bind(g, &Parameter::value, g.value);
    if (g.trained) reserve_trained(g);
  });
  // What is endless has addresses only.
  const auto heap = [&](std::optional<Heap>& h, Layout layout, std::int64_t bytes) {
    if (layout == Layout::sharded) h.emplace(ops_.allocate(bytes == Heap::kEndless ? 0 : bytes), bytes);
  };
  heap(values_, options_.stage.params, transient.values);
  heap(grads_, options_.stage.grads, transient.grads);
  norm_memory_ = ops_.allocate(size_of(DType::f64));
}

void ParameterStore::reserve_trained(Group& g) {
  const Range mine = stepped(g);
  if (g.dtype == DType::f32) {  // the value is its own master
    g.master = g.stage.params == Layout::sharded ? g.value : g.value.elements(mine.first, mine.count);
  } else {
    g.master = allocate(ops_, g.master_memory, mine.count, DType::f32);
  }
  g.grad = allocate(ops_, g.grad_memory, held(g, g.stage.grads).count, DType::f32);
  if (g.stage.grads == Layout::replicated) bind(g, &Parameter::grad, g.grad);
  for (const StateSpec& s : g.specs)
    g.states.push_back(allocate(ops_, g.state_memory.emplace_back(), s.elements(mine.count), s.dtype));
}

// Reads what this rank holds of a group, `range`, into `held`: in place on a CPU, through the host elsewhere.
void ParameterStore::read(const Group& g, Tensor held, Range range, const ReadParameter& read) {
  std::vector<std::byte> staging;
  for (std::size_t i = 0; i < g.parameters.size(); ++i) {
    const Parameter& p = *g.parameters[i];
    const std::int64_t from = std::max(g.offsets[i], range.first);
    const std::int64_t count = std::min(g.offsets[i] + g.size(p), range.first + range.count) - from;
    if (count <= 0) continue;
    // In elements of the parameter: ranges begin and end at multiples of kAlign bytes.
    const std::int64_t size = g.dtype == DType::u8 ? size_of(p.dtype) : 1,
                       first = (from - g.offsets[i]) / size;
    const Tensor here(held.data + (from - range.first) * size_of(held.dtype),
                      g.dtype == DType::u8 ? p.dtype : held.dtype, {count / size});
    if (ops_.device().kind == Device::Kind::cpu) {
      read(p, here, first);
      continue;
    }
    staging.resize(static_cast<std::size_t>(here.bytes()));
    read(p, {staging.data(), here.dtype, here.shape}, first);
    ops_.upload(here, staging.data());
    ops_.synchronize();
  }
}

void ParameterStore::load(const ReadParameter& source) {
  each_group([&](Group& g) {
    if (g.trained)
      read(g, g.master, stepped(g), source);
    else
      read(g, g.value, held(g, g.stage.params), source);
  });
  publish();
}

StoreMemory ParameterStore::memory() const {
  StoreMemory m;
  auto bytes = [](const Tensor& t, const Buffer& memory) { return memory ? t.bytes() : 0; };
  for (const Unit& u : units_)
    for (const Group& g : u.groups) {
      (g.trained ? m.trained : m.weights) += bytes(g.value, g.value_memory);
      m.optimizer += bytes(g.master, g.master_memory);
      m.gradients += bytes(g.grad, g.grad_memory);
      for (const Tensor& state : g.states) m.optimizer += state.bytes();
    }
  m.communication = transient().values + transient().grads + comm_.memory();
  return m;
}

TransientMemory ParameterStore::transient() const {
  return {values_ ? values_->size() : 0, grads_ ? grads_->size() : 0};
}

}  // namespace ft
