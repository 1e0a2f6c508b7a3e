#include "engine/train/optimizer.h"

#include <algorithm>

namespace ft {

double clip_coefficient(double norm, double most) {
  return most > 0 ? std::min(1.0, most / (norm + 1e-6)) : 1.0;
}

void Optimizer::step(Ops& ops, ParameterStore& store, double rate, double grad_scale,
                     std::int64_t step) const {
  const auto f = [](double v) { return static_cast<float>(v); };
  store.each_slice([&](const Slice& s) {
    const double decay = s.parameter->decays ? config_.weight_decay : 0;
    ops.enter(s.parameter->name);
    if (config_.optim == "sgd") {
      ops.sgd(s.master, s.grad, f(rate), f(decay), f(grad_scale));
    } else {
      ops.adamw(
          s.master, s.states[0], s.states[1], s.grad,
          {rate, config_.adam_beta1, config_.adam_beta2, config_.adam_epsilon, decay, f(grad_scale), step});
    }
  });
  store.publish();
}

}  // namespace ft
