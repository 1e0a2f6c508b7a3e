// Saving and restoring: the parts of a ParameterStore that checkpoints and results hold.
#include <algorithm>

#include "engine/core/divide.h"
#include "engine/zero/host_pieces.h"
#include "engine/zero/parameter_store.h"

namespace ft {

// Ranks at the same place of several groups hold the same piece: each saves a part of the piece, in complete
// blocks.
void ParameterStore::each_part(const std::function<void(const Slice&, HostPieces&)>& visit, bool gradients) {
  const std::int64_t parts = across_ ? across_->size() : 1, part = across_ ? across_->rank() : 0;
  HostPieces pieces(stepping(ops_));
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
      else  // saved by the rank with the parameter's first element
        own.states.push_back(own.first == 0 && !specs[k].apart() ? s.states[k] : Tensor{});
    visit(own, pieces);
  });
}

void ParameterStore::restore_masters(const ReadParameter& read) {
  HostPieces pieces(stepping(ops_));
  each_slice(options_.stage.states, {.changes = true}, [&](const Slice& s) {
    pieces.into(s.master, [&](const Tensor& y, std::int64_t at) { read(*s.parameter, y, s.first + at); });
  });
}

void ParameterStore::restore_states(const ReadState& read) {
  HostPieces pieces(stepping(ops_));
  const auto restore = [&](const Parameter& p, const StateSpec& s, const Tensor& to, std::int64_t first) {
    pieces.into(to, [&](const Tensor& y, std::int64_t at) { read(p, s, y, first + at); });
  };
  each_slice(options_.stage.states, {.changes = true}, [&](const Slice& s) {
    const auto specs = states(*s.parameter);
    for (std::size_t k = 0; k < specs.size(); ++k)
      if (!specs[k].whole()) restore(*s.parameter, specs[k], s.states[k], s.first / specs[k].block);
  });
  visit_whole(restore);
}

// Also visits parameters that this rank does not update.
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
  HostPieces pieces(ops_);
  visit_whole([&](const Parameter& p, const StateSpec& s, const Tensor& here, std::int64_t first) {
    if (p.copied || !s.apart()) return;
    pieces.out_of(here, [&](const Tensor& y, std::int64_t at) { visit(p, s, y, first + at); });
  });
}

}  // namespace ft
