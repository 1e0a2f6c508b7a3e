#include "engine/zero/store/device_gradients.h"

#include <utility>

namespace ft::zero {

void DeviceGradients::reserve(const Group& g) {
  own_.resize(static_cast<std::size_t>(layout_.groups()));
  OwnTensor& own = own_[static_cast<std::size_t>(g.index)];
  own.reserve(ops_, layout_.held(g, g.stage.grads).count, DType::f32);
  if (g.stage.grads == Placement::replicated) bind(g, &Parameter::grad, own.tensor);
}

void DeviceGradients::begin_step() {
  layout_.each_group([&](const Group& g) {
    if (!g.trained) return;
    if (g.stage.grads == Placement::replicated)
      clear(g);
    else
      ops_.run(op::Fill{of(g).tensor, 0});
  });
}

// Clears the memory between parameters that products overwrite. The padding after these stays zero.
void DeviceGradients::clear(const Group& g) {
  std::int64_t at = 0;
  const auto clear_to = [&](std::int64_t end) {
    if (end > at) ops_.run(op::Fill{of(g).tensor.elements(at, end - at), 0});
  };
  for (std::size_t i = 0; i < g.parameters.size(); ++i) {
    if (!g.parameters[i]->from_products) continue;
    g.parameters[i]->grad_unset = true;
    clear_to(g.offsets[i]);
    at = i + 1 < g.offsets.size() ? g.offsets[i + 1] : g.count;
  }
  clear_to(g.count);
}

void DeviceGradients::complete(const Unit& u) {
  for (const Group& g : u.groups)
    for (Parameter* p : g.parameters)
      if (g.trained && std::exchange(p->grad_unset, false)) ops_.run(op::Fill{p->grad, 0});
}

void DeviceGradients::keep(const Unit& u, CompleteGradients& complete, const std::byte* taken,
                           bool /*last*/) {
  for (const Group& g : u.groups) {
    if (!g.trained || g.coded_grads) continue;
    const Range mine = layout_.held(g, g.stage.grads);
    ops_.run(op::Add{of(g).tensor, complete.of(g).elements(mine.first, mine.count)});
  }
  complete.heap->give_back(taken);
}

std::int64_t DeviceGradients::bytes() const {
  std::int64_t sum = 0;
  for (const OwnTensor& own : own_) sum += own.bytes();
  return sum;
}

}  // namespace ft::zero
