// The loss scale of fp16 training. Small gradients vanish below float16's smallest number, 6e-8. So the loss
// is multiplied by a scale before the backward pass, and the f32 gradients are divided by it afterwards,
// without rounding if it is a power of two. A step whose gradients overflow is skipped. The scale changes as
// in DeepSpeed's DynamicLossScaler (runtime/fp16/loss_scaler.py), with its names and defaults.
#pragma once
#include <algorithm>
#include <cstdint>

#include "engine/train/config.h"

namespace ft {

class LossScaler {
 public:
  // Complete state of the scaler, saved in checkpoints.
  struct State {
    double scale = 1;
    std::int64_t hysteresis = 1;  // the remaining tolerance
    std::int64_t step = 0;        // optimizer steps seen, skipped ones included
    std::int64_t last_overflow = -1;
    bool operator==(const State&) const = default;
  };

  explicit LossScaler(const LossScaling& c = {}) : c_(c) {
    s_.scale = c.first();
    s_.hysteresis = c.hysteresis;
  }
  void restore(const State& s) { s_ = s; }
  const State& state() const { return s_; }
  double scale() const { return s_.scale; }

  // Call after each step; overflow: its gradients overflowed. Returns false, and changes nothing, if they
  // overflowed although the scale is at its minimum: training cannot continue.
  bool update(bool overflow) {
    if (c_.loss_scale == 0 && !(overflow ? shrink() : grow())) return false;
    ++s_.step;
    return true;
  }

 private:
  bool shrink() {
    if (c_.hysteresis > 1 && s_.hysteresis > 1) {
      --s_.hysteresis;
    } else {
      if (s_.scale <= c_.min_loss_scale) return false;
      s_.scale = std::max(s_.scale / 2, c_.min_loss_scale);
    }
    s_.last_overflow = s_.step;
    return true;
  }
  bool grow() {
    const std::int64_t good = s_.step - s_.last_overflow - 1;  // steps before this one
    const bool window = good > 0 && good % c_.loss_scale_window == 0;
    if (c_.consecutive_hysteresis || window) s_.hysteresis = c_.hysteresis;
    if (window) s_.scale *= 2;
    return true;
  }

  LossScaling c_;
  State s_;
};

}  // namespace ft
