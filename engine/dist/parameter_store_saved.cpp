// The parts of a ParameterStore that checkpoints and results hold, out of what the ranks have, and back.
#include <algorithm>

#include "engine/core/divide.h"
#include "engine/dist/parameter_store.h"
#include "engine/ops/ops.h"

namespace ft {

// Ranks of several groups hold the same piece: each saves a part of it, of whole blocks.
void ParameterStore::each_part(const std::function<void(const Slice&, const Download&)>& visit,
                               bool gradients) {
  const std::int64_t parts = across_ ? across_->size() : 1, part = across_ ? across_->rank() : 0;
  std::vector<std::byte> host;
  const Download download = [&](const Tensor& t) {
    host.resize(static_cast<std::size_t>(t.bytes()));
    stepping(ops_).download(host.data(), t);
    return Tensor(host.data(), t.dtype, t.shape);
  };
  each_slice(Layout::sharded, {.grads = gradients}, [&](const Slice& s) {
    if (s.parameter->copied) return;
    const auto specs = states(*s.parameter);
    const auto cut = [&](std::int64_t p) {
      return std::min(s.count, round_up(s.count * p / parts, common_block(specs)));
    };
    const std::int64_t from = cut(part), count = cut(part + 1) - from;
    if (count == 0) return;
    const Tensor grad = gradients ? s.grad.elements(from, count) : Tensor{};
    Slice own{{s.master.elements(from, count), grad, {}}, s.parameter, s.first + from, count};
    for (std::size_t k = 0; k < specs.size(); ++k)
      if (!specs[k].whole())
        own.states.push_back(s.states[k].elements(from / specs[k].block, specs[k].elements(count)));
      else  // saved by who has the parameter's first element
        own.states.push_back(own.first == 0 && !specs[k].apart() ? s.states[k] : Tensor{});
    visit(own, download);
  });
}

// In elements of a master or a state.
void ParameterStore::restore(const Tensor& to, const std::function<void(const Tensor&)>& read) {
  std::vector<std::byte> host(static_cast<std::size_t>(to.bytes()));
  read({host.data(), to.dtype, to.shape});
  stepping(ops_).upload(to, host.data());
}

void ParameterStore::restore_masters(const ReadParameter& read) {
  each_slice(options_.stage.states, {.changes = true}, [&](const Slice& s) {
    restore(s.master, [&](const Tensor& y) { read(*s.parameter, y, s.first); });
  });
}

void ParameterStore::restore_states(const ReadState& read) {
  each_slice(options_.stage.states, {.changes = true}, [&](const Slice& s) {
    const auto specs = states(*s.parameter);
    for (std::size_t k = 0; k < specs.size(); ++k)
      if (!specs[k].whole())
        restore(s.states[k],
                [&](const Tensor& y) { read(*s.parameter, specs[k], y, s.first / specs[k].block); });
  });
  visit_whole([&](const Parameter& p, const StateSpec& s, const Tensor& here, std::int64_t first) {
    restore(here, [&](const Tensor& y) { read(p, s, y, first); });
  });
}

// Those of parameters of which this rank steps nothing, too.
void ParameterStore::visit_whole(const std::function<void(const Parameter&, const StateSpec&,
                                                          const Tensor& here, std::int64_t first)>& visit) {
  each_group([&](const Group& g) {
    for (std::size_t k = 0; k < g.specs.size(); ++k)
      for (std::size_t i = 0; g.specs[k].whole() && i < g.parameters.size(); ++i) {
        const StateSpec& s = g.specs[k];
        const std::int64_t n = g.parameters[i]->shape.numel(), rank = comm_.rank();
        const std::int64_t first = s.kept == Kept::own      ? n * rank
                                   : s.kept == Kept::shares ? Share::of(n, rank, comm_.size()).first
                                                            : 0;
        visit(*g.parameters[i], s, whole_state(g, k, i), first);
      }
  });
}

void ParameterStore::each_apart(const std::function<void(const Parameter&, const StateSpec&,
                                                         const Tensor& host, std::int64_t first)>& visit) {
  std::vector<std::byte> host;
  visit_whole([&](const Parameter& p, const StateSpec& s, const Tensor& here, std::int64_t first) {
    if (p.copied || !s.apart()) return;
    host.resize(static_cast<std::size_t>(here.bytes()));
    ops_.download(host.data(), here);
    visit(p, s, {host.data(), here.dtype, here.shape}, first);
  });
}

}  // namespace ft
