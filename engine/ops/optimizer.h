// Sums for the gradient's norm, and optimizers' steps. All of dense f32.
#pragma once
#include "engine/ops/math.h"
#include "engine/ops/roles.h"

namespace ft::op {

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

// torch.optim.AdamW: decoupled decay, bias correction, eps outside the root. Not decoupled: torch.optim.Adam,
// whose gradient is grad_scale grad + decay master. Like torch's, the scalars are combined in f64 (1 - beta2
// of an f32 beta2 would be wrong in the fifth digit) and applied in f32.
struct AdamW {
  static constexpr const char* kName = "adamw";
  InOut master;
  InOut m, v;
  In grad;
  double lr, beta1, beta2, eps, decay;
  float grad_scale;   // clipping coefficient, applied to the gradient first
  std::int64_t step;  // 1-based
  bool decoupled = true;

  void check() const;
  math::AdamWStep scalars() const;
  void operands(auto&& visit) const {
    visit("master", master);
    visit("m", m);
    visit("v", v);
    visit("grad", grad);
  }
};

// Lion (Chen et al. 2023), as bitsandbytes computes it: decoupled decay, no bias correction. The scalars are
// combined in f64 and applied in f32.
struct Lion {
  static constexpr const char* kName = "lion";
  InOut master;
  InOut m;
  In grad;
  double lr, beta1, beta2, decay;
  float grad_scale;  // clipping coefficient, applied to the gradient first

  void check() const;
  math::LionStep scalars() const;
  void operands(auto&& visit) const {
    visit("master", master);
    visit("m", m);
    visit("grad", grad);
  }
};

// master -= lr (grad_scale grad + decay master): torch.optim.SGD without momentum.
struct Sgd {
  static constexpr const char* kName = "sgd";
  InOut master;
  In grad;
  float lr, decay, grad_scale;

  void check() const;
  void operands(auto&& visit) const {
    visit("master", master);
    visit("grad", grad);
  }
};

}  // namespace ft::op
