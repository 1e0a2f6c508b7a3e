// The formulas of optimizers' steps, for values V as in math.h, which also has fma(V a, V b, V c) = a b + c.
// What is rounded once is said: a step on a GPU and one on the host, where states may live, have the same
// bits, whatever the compilers would fuse.
#pragma once
#include "engine/ops/math.h"

namespace ft::math {

FT_HD inline float fma(float a, float b, float c) { return ::fmaf(a, b, c); }

}  // namespace ft::math

namespace ft::steps {

using math::constant, math::fma, math::sqrt, math::where_positive;

template <class V>
FT_HD inline void adamw(V& p, V& m, V& v, V grad, const math::AdamWStep& s) {
  V g = grad * constant(grad, s.grad_scale);
  if (s.l2 != 0) g = fma(p, constant(p, s.l2), g);
  m = fma(g, constant(g, s.rest1), m * constant(m, s.beta1));
  v = fma(g * g, constant(g, s.rest2), v * constant(v, s.beta2));
  const V root = fma(sqrt(v), constant(v, s.root), constant(v, s.eps));
  p = fma(p, constant(p, s.keep), m * constant(m, -s.rate) / root);
}

// p = p keep - rate sign(beta1 m + rest1 g), sign(0) = 0; then m = beta2 m + rest2 g.
template <class V>
FT_HD inline void lion(V& p, V& m, V grad, const math::LionStep& s) {
  const V g = grad * constant(grad, s.grad_scale), zero = constant(g, 0);
  const V c = fma(g, constant(g, s.rest1), m * constant(m, s.beta1));
  const V up = constant(g, s.rate), down = constant(g, -s.rate), none = constant(g, -0.0);
  const V change = where_positive(c, down, where_positive(zero - c, up, none));
  p = fma(p, constant(p, s.keep), change);
  m = fma(g, constant(g, s.rest2), m * constant(m, s.beta2));
}

template <class V>
FT_HD inline V sgd(V p, V grad, float lr, float decay, float grad_scale) {
  const V g = fma(p, constant(p, decay), grad * constant(grad, grad_scale));
  return fma(g, constant(g, -lr), p);
}

}  // namespace ft::steps
