#include "engine/zero/store/device_gradients.h"

namespace ft::zero {

void DeviceGradients::reserve(const Group& g) {
  own_.resize(static_cast<std::size_t>(layout_.groups()));
  OwnTensor& own = own_[static_cast<std::size_t>(g.index)];
  own.reserve(ops_, layout_.held(g, g.stage.grads).count, DType::f32);
  if (g.stage.grads == Placement::replicated) bind(g, &Parameter::grad, own.tensor);
}

void DeviceGradients::begin_step() {
  for (const OwnTensor& own : own_)
    if (own.tensor) ops_.run(op::Fill{own.tensor, 0});
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
