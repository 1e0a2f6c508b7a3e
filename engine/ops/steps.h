// The formulas of optimizers' steps, for values V as in math.h, which also provides fma(V a, V b, V c) = a b
// + c. fma marks every multiply-add that is rounded once: a step has the same bits on a GPU and on the host,
// where states may be offloaded, whatever operations the compilers would fuse.
//
// A step is a struct of the scalars, which the caller combines in f64. It is called with x, the elements that
// change (the master first, then the states), and the gradient's element, and updates x.
#pragma once
#include "engine/ops/math.h"

namespace ft::math {

FT_HD inline float fma(float a, float b, float c) { return ::fmaf(a, b, c); }

}  // namespace ft::math

namespace ft::steps {

using math::constant, math::fma, math::larger_of, math::sqrt, math::where_positive;

// The gradient plus weight decay as a part of the gradient.
template <class V>
FT_HD inline V coupled(V p, V grad, float decay, float grad_scale) {
  return fma(p, constant(p, decay), grad * constant(grad, grad_scale));
}

struct AdamW {         // x: master, m, v
  float keep;          // 1 - lr decay; 1 if the decay is in the gradient
  float l2;            // the decay in the gradient
  float beta1, rest1;  // rest: 1 - beta
  float beta2, rest2;
  float rate;  // lr / (1 - beta1^step)
  float root;  // 1 / sqrt(1 - beta2^step)
  float eps;
  float grad_scale;

  template <class V>
  FT_HD void operator()(V* x, V grad) const {
    V &p = x[0], &m = x[1], &v = x[2];
    V g = grad * constant(grad, grad_scale);
    if (l2 != 0) g = fma(p, constant(p, l2), g);
    m = fma(g, constant(g, rest1), m * constant(m, beta1));
    v = fma(g * g, constant(g, rest2), v * constant(v, beta2));
    const V under = fma(sqrt(v), constant(v, root), constant(v, eps));
    p = fma(p, constant(p, keep), m * constant(m, -rate) / under);
  }
};

// p = p keep - rate sign(beta1 m + rest1 g), sign(0) = 0; then m = beta2 m + rest2 g.
struct Lion {          // x: master, m
  float keep;          // 1 - lr decay
  float beta1, rest1;  // of the update; rest: 1 - beta
  float beta2, rest2;  // of the mean
  float rate;
  float grad_scale;

  template <class V>
  FT_HD void operator()(V* x, V grad) const {
    V &p = x[0], &m = x[1];
    const V g = grad * constant(grad, grad_scale), zero = constant(g, 0);
    const V c = fma(g, constant(g, rest1), m * constant(m, beta1));
    const V up = constant(g, rate), down = constant(g, -rate), none = constant(g, -0.0);
    const V change = where_positive(c, down, where_positive(zero - c, up, none));
    p = fma(p, constant(p, keep), change);
    m = fma(g, constant(g, rest2), m * constant(m, beta2));
  }
};

// p = p keep - (rate m + slow_rate slow) / (root sqrt(v) + eps).
struct AdEMAMix {      // x: master, m, slow, v
  float keep;          // 1 - lr decay
  float beta1, rest1;  // of m; rest: 1 - beta
  float beta2, rest2;  // of v
  float beta3, rest3;  // of slow
  float rate;          // lr / (1 - beta1^step)
  float slow_rate;     // lr alpha
  float root;          // 1 / sqrt(1 - beta2^step)
  float eps;
  float grad_scale;

  template <class V>
  FT_HD void operator()(V* x, V grad) const {
    V &p = x[0], &m = x[1], &slow = x[2], &v = x[3];
    const V g = grad * constant(grad, grad_scale);
    m = fma(g, constant(g, rest1), m * constant(m, beta1));
    slow = fma(g, constant(g, rest3), slow * constant(slow, beta3));
    v = fma(g * g, constant(g, rest2), v * constant(v, beta2));
    const V under = fma(sqrt(v), constant(v, root), constant(v, eps));
    const V change = fma(slow, constant(slow, -slow_rate), m * constant(m, -rate));
    p = fma(p, constant(p, keep), change / under);
  }
};

struct Sgd {  // x: master
  float lr, decay, grad_scale;

  template <class V>
  FT_HD void operator()(V* x, V grad) const {
    const V g = coupled(x[0], grad, decay, grad_scale);
    x[0] = fma(g, constant(g, -lr), x[0]);
  }
};

// b = momentum b + rest g; p -= lr b, or lr (g + ahead b).
struct Momentum {  // x: master, b
  float lr, decay, grad_scale;
  float momentum, rest;  // rest: 1 - dampening; in the first step momentum is 0 and rest is 1
  float ahead;           // with nesterov the momentum; else 0

  template <class V>
  FT_HD void operator()(V* x, V grad) const {
    V &p = x[0], &b = x[1];
    const V g = coupled(p, grad, decay, grad_scale);
    b = fma(g, constant(g, rest), b * constant(b, momentum));
    const V change = ahead != 0 ? fma(b, constant(b, ahead), g) : b;
    p = fma(change, constant(p, -lr), p);
  }
};

// v += g^2; p -= rate g / (sqrt(v) + eps).
struct Adagrad {  // x: master, v
  float rate;     // lr / (1 + (step - 1) lr_decay)
  float decay, eps, grad_scale;

  template <class V>
  FT_HD void operator()(V* x, V grad) const {
    V &p = x[0], &v = x[1];
    const V g = coupled(p, grad, decay, grad_scale);
    v = fma(g, g, v);
    p = fma(g / (sqrt(v) + constant(v, eps)), constant(p, -rate), p);
  }
};

struct RmsPropScalars {
  float lr, alpha, rest;  // rest: 1 - alpha
  float momentum, decay, eps, grad_scale;
};

// v = alpha v + rest g^2; u = g / (sqrt(v) + eps), centered: sqrt(v - mean^2), where mean is the mean of g; p
// -= lr u, or with momentum p -= lr b, b = momentum b + u.
template <bool centered, bool momentum>
struct RmsProp {  // x: master, v, mean if centered, b if momentum
  RmsPropScalars s;

  template <class V>
  FT_HD void operator()(V* x, V grad) const {
    V &p = x[0], &v = x[1];
    const V g = coupled(p, grad, s.decay, s.grad_scale), zero = constant(g, 0);
    v = fma(g * g, constant(g, s.rest), v * constant(v, s.alpha));
    V square = v;
    if constexpr (centered) {
      x[2] = fma(g - x[2], constant(g, s.rest), x[2]);
      square = larger_of(zero, fma(zero - x[2], x[2], v));
    }
    V change = g / (sqrt(square) + constant(v, s.eps));
    if constexpr (momentum) {
      V& b = x[centered ? 3 : 2];
      b = fma(b, constant(b, s.momentum), change);
      change = b;
    }
    p = fma(change, constant(p, -s.lr), p);
  }
};

struct FirstMoment {
  float beta, rest;  // rest: 1 - beta
  float grad_scale;

  template <class V>
  FT_HD V operator()(V m, V grad) const {
    return fma(grad * constant(grad, grad_scale), constant(m, rest), m * constant(m, beta));
  }
};

struct PlainAdam {
  float keep;          // 1 - lr decay
  float beta2, rest2;  // rest: 1 - beta
  float rate, eps, grad_scale;

  template <class V>
  FT_HD V second_moment(V v, V grad) const {
    const V g = grad * constant(grad, grad_scale);
    return fma(g * g, constant(g, rest2), v * constant(v, beta2));
  }
  template <class V>
  FT_HD V step(V p, V m, V v) const {
    return fma(p, constant(p, keep), m * constant(m, -rate) / (sqrt(v) + constant(v, eps)));
  }
};

struct Average {  // x: the mean; called with the new value instead of the gradient
  float rest;

  template <class V>
  FT_HD void operator()(V* x, V value) const {
    x[0] = fma(value - x[0], constant(value, rest), x[0]);
  }
};

// See op::RootUpdate.
struct RootUpdate {  // x: v, then the gradient, which it overwrites
  float beta2, rest, eps, grad_scale;

  template <class V>
  FT_HD void operator()(V* x, V grad) const {
    const V g = grad * constant(grad, grad_scale);
    x[0] = fma(fma(g, g, constant(g, eps)), constant(g, rest), x[0] * constant(g, beta2));
    x[1] = g / sqrt(x[0]);
  }
};

// See op::MuonMomentum.
struct MuonMomentum {  // x: m, then the gradient, which it overwrites
  float rest;          // 1 - momentum
  float ahead;         // factor of m in the update: the momentum, or 1
  float grad_scale;

  template <class V>
  FT_HD void operator()(V* x, V grad) const {
    const V g = grad * constant(grad, grad_scale);
    x[0] = fma(g - x[0], constant(g, rest), x[0]);
    x[1] = ahead == 1 ? x[0] : fma(x[0] - g, constant(g, ahead), g);
  }
};

// Divisors of an update, from the sum of its squares; see op::Descend and op::Scale.
FT_HD inline double shortened(double squares, double count, double threshold) {
  const double over = sqrt(squares / count) / threshold;
  return over > 1 ? over : 1;
}
FT_HD inline float divisor(double squares, double least) {
  const double norm = sqrt(squares);
  return static_cast<float>(norm > least ? norm : least);
}

}  // namespace ft::steps
