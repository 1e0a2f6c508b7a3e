// Sums for the gradient's norm, and the steps of optimizers. All tensors are dense; values and codes are
// narrow, the others f32.
//
// A step changes `master` and the states in place, and writes the new master to `value` too, if that is
// there, rounded to its type (bf16 or f16). It first multiplies the gradient by grad_scale, the clipping
// coefficient. Scalars are combined in f64, as in torch (1 - beta2 of an f32 beta2 would be wrong in the
// fifth digit), and applied in f32; the formulas are in steps.h.
//
// States may be kept in 8 bits, as in bitsandbytes: codes (u8) of a map (core/dynamic_map.h), and for each
// block of kCodedBlock codes the largest magnitude (f32), which multiplies the map's values. The step
// computes in f32; then it finds the block's largest magnitude and the nearest code of each element. A block
// of zeros has the magnitude 0.
#pragma once
#include "engine/ops/roles.h"
#include "engine/ops/steps.h"

namespace ft::op {

inline constexpr std::int64_t kCodedBlock = 256;

// y (1) f64 += the sum of x.
struct Sum {
  static constexpr const char* kName = "sum";
  Acc y;
  In x;

  void check() const;
  void operands(auto&& visit) const {
    visit("y", y);
    visit("x", x);
  }
};

// y (1) f64 += the sum of x^2.
struct SumSquares {
  static constexpr const char* kName = "sum_squares";
  Acc y;
  In x;

  void check() const;
  void operands(auto&& visit) const {
    visit("y", y);
    visit("x", x);
  }
};

// torch.optim.AdamW: decoupled decay, bias correction, eps outside the root. decoupled = false:
// torch.optim.Adam, whose gradient is grad_scale grad + decay master. With m_largest and v_largest, m and v
// are codes; v's are unsigned.
struct AdamW {
  static constexpr const char* kName = "adamw";
  InOut master;
  Out value = Tensor{};
  InOut m, v;
  InOut m_largest = Tensor{}, v_largest = Tensor{};
  In grad;
  double lr, beta1, beta2, eps, decay;
  float grad_scale;
  std::int64_t step;  // 1-based
  bool decoupled = true;

  void check() const;
  steps::AdamW scalars() const;
  void operands(auto&& visit) const {
    visit("master", master);
    visit("value", value);
    visit("m", m);
    visit("v", v);
    visit("m_largest", m_largest);
    visit("v_largest", v_largest);
    visit("grad", grad);
  }
};

// Lion (Chen et al. 2023), as bitsandbytes computes it: decoupled decay, no bias correction. With m_largest,
// m holds codes.
struct Lion {
  static constexpr const char* kName = "lion";
  InOut master;
  Out value = Tensor{};
  InOut m;
  InOut m_largest = Tensor{};
  In grad;
  double lr, beta1, beta2, decay;
  float grad_scale;

  void check() const;
  steps::Lion scalars() const;
  void operands(auto&& visit) const {
    visit("master", master);
    visit("value", value);
    visit("m", m);
    visit("m_largest", m_largest);
    visit("grad", grad);
  }
};

// AdEMAMix (Pagliardini et al. 2024), as bitsandbytes computes it: AdamW with a second, slower mean of the
// gradients, which is added to the first `alpha` times and has no bias correction. With m_largest, m, slow
// and v are codes; v's are unsigned.
struct AdEMAMix {
  static constexpr const char* kName = "ademamix";
  InOut master;
  Out value = Tensor{};
  InOut m, slow, v;
  InOut m_largest = Tensor{}, slow_largest = Tensor{}, v_largest = Tensor{};
  In grad;
  double lr, beta1, beta2, beta3, alpha, eps, decay;  // beta3: of slow; it and alpha are this step's
  float grad_scale;
  std::int64_t step;  // 1-based

  void check() const;
  steps::AdEMAMix scalars() const;
  void operands(auto&& visit) const {
    visit("master", master);
    visit("value", value);
    visit("m", m);
    visit("slow", slow);
    visit("v", v);
    visit("m_largest", m_largest);
    visit("slow_largest", slow_largest);
    visit("v_largest", v_largest);
    visit("grad", grad);
  }
};

// torch.optim.SGD: the decay is part of the gradient. Without `buffer` there is no momentum.
struct Sgd {
  static constexpr const char* kName = "sgd";
  InOut master;
  Out value = Tensor{};
  InOut buffer = Tensor{};
  In grad;
  double lr, decay;
  float grad_scale;
  double momentum = 0, dampening = 0;
  bool nesterov = false;
  std::int64_t step = 1;  // 1-based; the first step uses the gradient itself

  void check() const;
  steps::Sgd scalars() const;
  steps::Momentum with_momentum() const;
  void operands(auto&& visit) const {
    visit("master", master);
    visit("value", value);
    visit("buffer", buffer);
    visit("grad", grad);
  }
};

// torch.optim.Adagrad: `sum` is the sum of squared gradients; the decay is part of the gradient.
struct Adagrad {
  static constexpr const char* kName = "adagrad";
  InOut master;
  Out value = Tensor{};
  InOut sum;
  In grad;
  double lr, lr_decay, eps, decay;
  float grad_scale;
  std::int64_t step;  // 1-based

  void check() const;
  steps::Adagrad scalars() const;
  void operands(auto&& visit) const {
    visit("master", master);
    visit("value", value);
    visit("sum", sum);
    visit("grad", grad);
  }
};

// torch.optim.RMSprop: the root first, then eps; the decay is part of the gradient. With `mean` it is
// centered, with `buffer` it has momentum.
struct RmsProp {
  static constexpr const char* kName = "rmsprop";
  InOut master;
  Out value = Tensor{};
  InOut square;
  InOut mean = Tensor{}, buffer = Tensor{};
  In grad;
  double lr, alpha, eps, momentum, decay;
  float grad_scale;

  void check() const;
  steps::RmsPropScalars scalars() const;
  void operands(auto&& visit) const {
    visit("master", master);
    visit("value", value);
    visit("square", square);
    visit("mean", mean);
    visit("buffer", buffer);
    visit("grad", grad);
  }
};

// y = beta m + (1 - beta) grad_scale grad; with `adds` y += that value. y may be m.
struct FirstMoment {
  static constexpr const char* kName = "first_moment";
  InOut y;
  In m;
  In grad;
  double beta;
  float grad_scale;
  bool adds = false;

  void check() const;
  steps::FirstMoment scalars() const;
  void operands(auto&& visit) const {
    visit("y", y);
    visit("m", m);
    visit("grad", grad);
  }
};

// Adam's step without bias correction and with decoupled decay, for a first moment m that was computed
// before. With grad, v changes first: v = beta2 v + (1 - beta2) (grad_scale grad)^2.
struct PlainAdam {
  static constexpr const char* kName = "plain_adam";
  InOut master;
  InOut v;
  In m;
  In grad = Tensor{};
  double lr, beta2, eps, decay;
  float grad_scale = 1;

  void check() const;
  steps::PlainAdam scalars() const;
  void operands(auto&& visit) const {
    visit("master", master);
    visit("v", v);
    visit("m", m);
    visit("grad", grad);
  }
};

// mean += rest (x - mean): an exponential moving average.
struct Average {
  static constexpr const char* kName = "average";
  InOut mean;
  In x;
  double rest;

  void check() const;
  steps::Average scalars() const;
  void operands(auto&& visit) const {
    visit("mean", mean);
    visit("x", x);
  }
};

}  // namespace ft::op
