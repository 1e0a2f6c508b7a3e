#include "engine/zero/store/parts.h"

#include <algorithm>

#include "engine/core/divide.h"

namespace ft::zero {

// Ranks at the same place of several groups hold the same piece: each saves a part of the piece, in complete
// blocks.
void Parts::each_part(const std::function<void(const Slice&, HostPieces&)>& visit, bool gradients) {
  const auto& across = layout_.ranks().across;
  const std::int64_t parts = across ? across->size() : 1, part = across ? across->rank() : 0;
  HostPieces pieces(stepping_.ops(ops_));
  stepping_.each_slice(Placement::sharded, {.grads = gradients}, [&](const Slice& s) {
    if (s.parameter->copied) return;
    const auto specs = layout_.states(*s.parameter);
    const auto cut = [&](std::int64_t p) {
      return std::min(s.count, round_up(s.count * p / parts, common_block(specs)));
    };
    const std::int64_t from = cut(part), count = cut(part + 1) - from;
    if (count == 0) return;
    const Tensor grad = gradients ? s.grad.elements(from, count) : Tensor{};
    Slice own{{s.master.elements(from, count), grad, {}}, s.parameter, s.first + from, count};
    for (std::size_t k = 0; k < specs.size(); ++k)
      if (!specs[k].unsharded())
        own.states.push_back(s.states[k].elements(from / specs[k].block, specs[k].elements(count)));
      else  // saved by the rank with the parameter's first element
        own.states.push_back(own.first == 0 && !specs[k].differs() ? s.states[k] : Tensor{});
    visit(own, pieces);
  });
}

void Parts::each_differing(const VisitState& visit) {
  HostPieces pieces(ops_);
  stepping_.each_unsharded_state(
      [&](const Parameter& p, const StateSpec& s, const Tensor& here, std::int64_t first) {
        if (p.copied || !s.differs()) return;
        pieces.out_of(here, [&](const Tensor& y, std::int64_t at) { visit(p, s, y, first + at); });
      });
}

// Bounds a group by the elements of a rank's piece, padding included, and by one slice for each parameter and
// window. A part of a slice may exceed its share by a block.
std::int64_t Parts::most_bytes(bool gradients, std::int64_t align) const {
  const auto& across = layout_.ranks().across;
  const std::int64_t ranks = layout_.ranks().all.size();
  std::int64_t bytes = 0;
  layout_.each_group([&](const Group& g) {
    if (!g.trained) return;
    const std::int64_t count = layout_.held(g, Placement::sharded).count,
                       slices = std::ssize(g.parameters) + ceil_div(count, layout_.window(g)),
                       part =
                           across ? ceil_div(count, across->size()) + slices * common_block(g.specs) : count;
    const auto add = [&](std::int64_t elements, std::int64_t tensors, DType type) {
      bytes += elements * size_of(type) + tensors * align;
    };
    add((gradients ? 2 : 1) * part, (gradients ? 2 : 1) * slices, DType::f32);
    for (const StateSpec& s : g.specs) {
      if (!s.unsharded()) add(ceil_div(part, s.block) + slices, slices, s.dtype);
      for (const Parameter* p : g.parameters)
        if (s.kept == Kept::shares)
          add(Share::most(p->shape.numel(), ranks), 1, s.dtype);
        else if (s.unsharded())
          add(s.shape_for(p->shape).numel(), 1, s.dtype);
    }
  });
  return bytes;
}

void Parts::restore_masters(const ReadParameter& read) {
  HostPieces pieces(stepping_.ops(ops_));
  stepping_.each_slice(layout_.options().stage.states, {.changes = true}, [&](const Slice& s) {
    pieces.into(s.master, [&](const Tensor& y, std::int64_t at) { read(*s.parameter, y, s.first + at); });
  });
}

void Parts::restore_states(const ReadState& read) {
  HostPieces pieces(stepping_.ops(ops_));
  const auto restore = [&](const Parameter& p, const StateSpec& s, const Tensor& to, std::int64_t first) {
    pieces.into(to, [&](const Tensor& y, std::int64_t at) { read(p, s, y, first + at); });
  };
  stepping_.each_slice(layout_.options().stage.states, {.changes = true}, [&](const Slice& s) {
    const auto specs = layout_.states(*s.parameter);
    for (std::size_t k = 0; k < specs.size(); ++k)
      if (!specs[k].unsharded()) restore(*s.parameter, specs[k], s.states[k], s.first / specs[k].block);
  });
  stepping_.each_unsharded_state(restore);
}

}  // namespace ft::zero
