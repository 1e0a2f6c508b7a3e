#include "engine/dist/parameter_store.h"

#include <algorithm>
#include <cmath>

namespace ft {
namespace {

constexpr std::int64_t kAlign = 256;  // bytes; every parameter begins at a multiple of them

std::int64_t round_up(std::int64_t n, std::int64_t unit) { return (n + unit - 1) / unit * unit; }

Tensor allocate(Ops& ops, Buffer& memory, std::int64_t count, DType dtype) {
  if (count == 0) return {};
  memory = ops.allocate(count * size_of(dtype));
  Tensor t(memory.get(), dtype, {count});
  const bool bytes = dtype == DType::u8;  // whole floats: a multiple of kAlign
  ops.fill(bytes ? Tensor(t.data, DType::f32, {count / size_of(DType::f32)}) : t, 0);
  return t;
}

}  // namespace

ParameterStore::Range ParameterStore::held(const Group& g, Layout layout, int rank) const {
  if (layout == Layout::replicated) return {0, g.count};
  const std::int64_t each = g.count / comm_.size();
  return {each * rank, each};
}

int ParameterStore::add_unit(std::string name, const std::vector<Parameter*>& parameters) {
  Unit& u = units_.emplace_back();
  u.name = std::move(name);
  for (Parameter* p : parameters) (p->trainable ? u.trained : u.frozen).parameters.push_back(p);
  lay_out(u.frozen, DType::u8);
  lay_out(u.trained, u.trained.parameters.empty() ? DType::f32 : u.trained.parameters[0]->dtype);
  return units() - 1;
}

void ParameterStore::lay_out(Group& g, DType dtype) const {
  g.dtype = dtype;
  const std::int64_t align = kAlign / size_of(dtype);
  for (const Parameter* p : g.parameters) {
    require(dtype == DType::u8 || p->dtype == dtype, "trained parameters of a unit have one dtype");
    g.offsets.push_back(g.count);
    g.count += round_up(g.size(*p), align);
  }
  g.count = round_up(g.count, align * comm_.size());
}

void ParameterStore::bind(Group& g, Tensor Parameter::*view, Tensor all) {
  for (std::size_t i = 0; i < g.parameters.size(); ++i) {
    Parameter& p = *g.parameters[i];
    p.*view = Tensor(all.data + g.offsets[i] * size_of(all.dtype),
                     all.dtype == DType::u8 ? p.dtype : all.dtype, p.shape);
  }
}

void ParameterStore::reserve(int states) {
  for (Unit& u : units_) {
    for (Group* g : {&u.frozen, &u.trained}) {
      g->value = allocate(ops_, g->value_memory, held(*g, zero_.params).count, g->dtype);
      if (g->value && zero_.params == Layout::replicated) bind(*g, &Parameter::value, g->value);
    }
    if (u.trained.count > 0) reserve_trained(u.trained, states);
  }
  reserve_transient();
  norm_memory_ = ops_.allocate(size_of(DType::f64));
}

void ParameterStore::reserve_trained(Group& g, int states) {
  const Range mine = stepped(g);
  if (g.dtype == DType::f32) {  // the value is its own master
    g.master = zero_.params == Layout::sharded ? g.value : g.value.elements(mine.first, mine.count);
  } else {
    g.master = allocate(ops_, g.master_memory, mine.count, DType::f32);
  }
  g.grad = allocate(ops_, g.grad_memory, held(g, zero_.grads).count, DType::f32);
  if (zero_.grads == Layout::replicated) bind(g, &Parameter::grad, g.grad);
  for (std::size_t i = 0; i < static_cast<std::size_t>(states); ++i)
    g.states[i] = allocate(ops_, g.state_memory[i], mine.count, DType::f32);
}

// Sharded units are whole only while in use; at most two are (a tied head needs the embedding beside its own
// norm).
void ParameterStore::reserve_transient() {
  std::vector<std::int64_t> values, grads;
  for (const Unit& u : units_) {
    values.push_back(round_up(u.frozen.count * size_of(u.frozen.dtype), Arena::kAlign) +
                     round_up(u.trained.count * size_of(u.trained.dtype), Arena::kAlign));
    grads.push_back(round_up(u.trained.count * size_of(DType::f32), Arena::kAlign));
  }
  auto two_largest = [](std::vector<std::int64_t>& sizes) {
    std::sort(sizes.rbegin(), sizes.rend());
    return (sizes.empty() ? 0 : sizes[0]) + (sizes.size() < 2 ? 0 : sizes[1]);
  };
  auto arena = [&](std::optional<Arena>& a, Layout layout, std::vector<std::int64_t>& sizes) {
    if (layout == Layout::replicated) return;
    const std::int64_t bytes = two_largest(sizes);
    a.emplace(ops_.allocate(bytes), bytes);
  };
  arena(gathered_, zero_.params, values);
  arena(whole_grads_, zero_.grads, grads);
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
  for (Unit& u : units_) {
    read(u.frozen, u.frozen.value, held(u.frozen, zero_.params), source);
    read(u.trained, u.trained.master, stepped(u.trained), source);
  }
  publish();
}

void ParameterStore::begin_step() {
  for (Unit& u : units_)
    if (u.trained.grad) ops_.fill(u.trained.grad, 0);
}

Tensor ParameterStore::gather(Group& g) {
  Tensor all = gathered_->take({g.count}, g.dtype);
  comm_.all_gather(all, g.value);
  return all;
}

void ParameterStore::acquire(int index, bool backward) {
  Unit& u = unit(index);
  if (zero_.params == Layout::sharded) {
    u.gathered_mark = gathered_->mark();
    for (Group* g : {&u.frozen, &u.trained})
      if (g->count > 0) bind(*g, &Parameter::value, gather(*g));
  }
  if (zero_.grads == Layout::sharded) {
    u.grads_mark = whole_grads_->mark();
    u.whole_grad = {};
    if (!backward || u.trained.count == 0) return;
    u.whole_grad = whole_grads_->take({u.trained.count}, DType::f32);
    ops_.fill(u.whole_grad, 0);
    bind(u.trained, &Parameter::grad, u.whole_grad);
  }
}

void ParameterStore::release(int index) {
  Unit& u = unit(index);
  if (zero_.params == Layout::sharded) gathered_->rewind(u.gathered_mark);
  if (zero_.grads == Layout::sharded) whole_grads_->rewind(u.grads_mark);
}

void ParameterStore::reduce(int index, bool complete) {
  Unit& u = unit(index);
  Group& g = u.trained;
  if (g.count == 0) return;
  if (zero_.grads == Layout::sharded) {
    const Range mine = held(g, zero_.grads);
    Tensor sum = u.whole_grad.elements(mine.first, mine.count);
    comm_.reduce_scatter(sum, u.whole_grad);
    ops_.add(g.grad, sum);
  } else if (complete && last_micro_) {
    const Range mine = stepped(g);
    if (zero_.states == Layout::replicated)
      comm_.all_reduce(g.grad);
    else
      comm_.reduce_scatter(g.grad.elements(mine.first, mine.count), g.grad);
  }
}

// Every rank sums its part, in every layout, so that the norm, and what is clipped by it, has the same bits
// in all of them.
double ParameterStore::grad_norm() {
  Tensor total(norm_memory_.get(), DType::f64, {1});
  const double zero = 0;
  ops_.upload(total, &zero);
  each_slice(Layout::sharded, [&](const Slice& s) { ops_.sum_squares(total, s.grad); });
  comm_.all_reduce(total);
  double squares = 0;
  ops_.download(&squares, total);
  return std::sqrt(squares);
}

void ParameterStore::each_slice(Layout layout, const std::function<void(const Slice&)>& visit) {
  for (Unit& u : units_) {
    Group& g = u.trained;
    const Range mine = held(g, layout);
    const std::int64_t grad_first = held(g, zero_.grads).first, state_first = stepped(g).first;
    for (std::size_t i = 0; i < g.parameters.size(); ++i) {
      const std::int64_t begin = g.offsets[i], end = begin + g.parameters[i]->shape.numel();
      const std::int64_t from = std::max(begin, mine.first), to = std::min(end, mine.first + mine.count);
      if (from >= to) continue;
      Slice s{g.parameters[i],
              from - begin,
              to - from,
              g.master.elements(from - state_first, to - from),
              g.grad.elements(from - grad_first, to - from),
              {}};
      for (std::size_t k = 0; k < s.states.size(); ++k)
        if (g.states[k]) s.states[k] = g.states[k].elements(from - state_first, to - from);
      visit(s);
    }
  }
}

void ParameterStore::publish() {
  for (Unit& u : units_) {
    Group& g = u.trained;
    if (g.count == 0) continue;
    const Range mine = stepped(g);
    const bool whole = zero_.params == Layout::replicated;
    Tensor own = whole ? g.value.elements(mine.first, mine.count) : g.value;
    if (g.dtype != DType::f32) ops_.cast(own, g.master);
    if (whole && zero_.states == Layout::sharded) comm_.all_gather(g.value, own);
  }
}

StoreMemory ParameterStore::memory() const {
  StoreMemory m;
  auto bytes = [](const Tensor& t, const Buffer& memory) { return memory ? t.bytes() : 0; };
  for (const Unit& u : units_) {
    m.weights += bytes(u.frozen.value, u.frozen.value_memory);
    m.trained += bytes(u.trained.value, u.trained.value_memory);
    m.optimizer += bytes(u.trained.master, u.trained.master_memory);
    m.gradients += bytes(u.trained.grad, u.trained.grad_memory);
    for (std::size_t i = 0; i < 2; ++i) m.optimizer += bytes(u.trained.states[i], u.trained.state_memory[i]);
  }
  if (gathered_) m.communication += gathered_->capacity();
  if (whole_grads_) m.communication += whole_grads_->capacity();
  m.communication += comm_.memory();
  return m;
}

}  // namespace ft
