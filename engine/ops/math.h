// The formulas of the elementwise computations, shared by all backends: V is float in CUDA kernels, a vector
// of floats in the CPU's loops. FT_HD makes the functions always inline: the linker would otherwise merge
// versions compiled for different CPUs.
//
// V needs + - * /. If V is not a scalar, argument-dependent lookup has to find constant(V, c), exp2(V),
// sqrt(V), abs(V), larger_of(V, V) (the second one if either is NaN) and where_positive(V x, V yes, V no).
#pragma once
#include <cmath>
#include <cstdint>

#include "engine/core/dtype.h"

namespace ft {

enum class Activation : std::uint8_t { silu, gelu, gelu_tanh, relu, sigmoid };

namespace math {

// ---- scalars
template <class V>
FT_HD inline V constant(V, double c) {
  return static_cast<V>(c);
}
FT_HD inline float exp2(float x) { return ::exp2f(x); }
FT_HD inline double exp2(double x) { return ::exp2(x); }
FT_HD inline float sqrt(float x) { return ::sqrtf(x); }
FT_HD inline double sqrt(double x) { return ::sqrt(x); }
FT_HD inline float abs(float x) { return ::fabsf(x); }
FT_HD inline double abs(double x) { return ::fabs(x); }
template <class V>
FT_HD inline V larger_of(V a, V b) {
  return a > b ? a : b;
}
template <class V>
FT_HD inline V where_positive(V x, V yes, V no) {
  return x > V{0} ? yes : no;
}

inline constexpr double kLog2e = 1.4426950408889634;

// A function's value and derivative, which share most of their computation.
template <class V>
struct Curve {
  V value, slope;
};

template <class V>
FT_HD inline V sigmoid(V x) {
  const V one = constant(x, 1);
  return one / (one + exp2(x * constant(x, -kLog2e)));
}

template <class V>
FT_HD inline Curve<V> silu(V x) {
  const V s = sigmoid(x);
  return {x * s, s + x * s * (constant(x, 1) - s)};
}

// x Phi(x), where Phi is the normal distribution. For a = |x|: Phi(-a) = exp(-a^2 / 2) t P(t), t = 1 / (1 +
// 0.3 a), with P fitted to a relative error below 4e-9 for a up to 14, where Phi(-a) vanishes in f32.
template <class V>
FT_HD inline Curve<V> gelu(V x) {
  const V one = constant(x, 1), a = abs(x), t = one / (one + a * constant(x, 0.3));
  constexpr double kP[] = {0.11968663334846497,  0.11957284063100815, 0.11022734642028809,
                           0.07842547446489334,  0.09605814516544342, -0.07924792915582657,
                           0.19158241152763367,  -0.2280680537223816, 0.11237600445747375,
                           -0.020612871274352074};
  V p = constant(x, kP[9]);
  for (int i = 8; i >= 0; --i) p = p * t + constant(x, kP[i]);
  const V bell = exp2(x * x * constant(x, -0.5 * kLog2e));
  const V tail = bell * t * p;  // Phi(-|x|)
  const V phi = where_positive(x, one - tail, tail);
  return {x * phi, phi + x * bell * constant(x, 0.3989422804014327)};
}

// 0.5 x (1 + tanh u) = x sigmoid(2 u), u = sqrt(2 / pi) (x + 0.044715 x^3)
template <class V>
FT_HD inline Curve<V> gelu_tanh(V x) {
  constexpr double kTwice = 2 * 0.7978845608028654, kCubic = 0.044715;
  const V one = constant(x, 1), xx = x * x;
  const V s = sigmoid(x * constant(x, kTwice) * (one + xx * constant(x, kCubic)));
  const V du = constant(x, kTwice) * (one + xx * constant(x, 3 * kCubic));
  return {x * s, s + x * s * (one - s) * du};
}

template <class V>
FT_HD inline Curve<V> relu(V x) {
  const V zero = constant(x, 0);
  return {larger_of(zero, x), where_positive(x, constant(x, 1), zero)};
}

template <Activation f, class V>
FT_HD inline Curve<V> activation(V x) {
  if constexpr (f == Activation::silu) return silu(x);
  if constexpr (f == Activation::gelu) return gelu(x);
  if constexpr (f == Activation::gelu_tanh) return gelu_tanh(x);
  if constexpr (f == Activation::relu) return relu(x);
  if constexpr (f == Activation::sigmoid) {
    const V s = sigmoid(x);
    return {s, s * (constant(x, 1) - s)};
  }
}

// Relative error below 4e-7: x P(x^2) / Q(x^2), fitted up to |x| = 9, beyond which tanh is 1 in f32.
template <class V>
FT_HD inline V tanh_of(V x) {
  constexpr double kP[] = {0.9999999796343104, 0.1338104704834776, 0.0034956126971317026, 2.06094541843e-05,
                           1.3355118141208352e-08};
  constexpr double kQ[] = {1.0, 0.46714362694082345, 0.025877077855697754, 0.00032856735811022104,
                           7.776757490346071e-07};
  const V nine = constant(x, 9), zero = constant(x, 0);
  const V at_most = zero - larger_of(zero - nine, zero - x);
  const V a = larger_of(zero - nine, at_most), z = a * a;
  V p = constant(x, kP[4]), q = constant(x, kQ[4]);
  for (int i = 3; i >= 0; --i) {
    p = p * z + constant(x, kP[i]);
    q = q * z + constant(x, kQ[i]);
  }
  return a * p / q;
}

// The gate of gpt-oss' experts: (u + 1) g sigmoid(steepness g) with g = min(gate, limit) and u = up, clamped
// to -limit and limit. Derivatives by gate and up are 0 beyond the limits, as for PyTorch's clamp.
template <class V>
struct LimitedGate {
  V value, by_gate, by_up;
};
template <class V>
FT_HD inline LimitedGate<V> limited_gate(V gate, V up, V limit, V steepness) {
  const V zero = constant(gate, 0), one = constant(gate, 1);
  const V g = zero - larger_of(zero - limit, zero - gate);
  const V u = larger_of(zero - limit, zero - larger_of(zero - limit, zero - up));
  const V s = sigmoid(steepness * g), raised = u + one, glu = g * s;
  const V within = where_positive(zero - limit - up, zero, glu);
  return {raised * glu, where_positive(gate - limit, zero, raised * (s + steepness * glu * (one - s))),
          where_positive(up - limit, zero, within)};
}

// The derivative of cap tanh(x / cap), given its value divided by the cap.
template <class V>
FT_HD inline V soft_cap_slope(V part) {
  return larger_of(constant(part, 0), constant(part, 1) - part * part);
}

// The shares of two parts of a softmax whose denominators have the logarithms a and b, and the logarithm of
// the joint denominator.
struct SoftmaxShares {
  float first, second, lse;
};
FT_HD inline SoftmaxShares softmax_shares(float a, float b) {
  constexpr auto kPower = static_cast<float>(kLog2e);
  const float top = larger_of(a, b), x = exp2((a - top) * kPower), y = exp2((b - top) * kPower);
  return {x / (x + y), y / (x + y), top + ::logf(x + y)};
}

// A sink's share of a softmax, given the logarithm of the denominator.
FT_HD inline float sink_share(float sink, float lse) {
  return exp2((sink - lse) * static_cast<float>(kLog2e));
}

// dx of y = x rstd w, with dot = sum(dy w x) over the row: rstd (dy w) - x rstd^3 dot / C. `pull` is rstd^3
// dot / C.
template <class V>
FT_HD inline V rms_norm_slope(V dy, V x, V w, V rstd, V pull) {
  return dy * w * rstd - x * pull;
}

// LayerNorm's addition to dx, for an element normed = (x - mean) rstd and the row's mean_g = mean(dy w) and
// mean_gn = mean(dy w normed).
template <class V>
FT_HD inline V layer_norm_slope(V dy, V normed, V w, V rstd, V mean_g, V mean_gn) {
  return (dy * w - mean_g - normed * mean_gn) * rstd;
}

// log(1 + e^x)
FT_HD inline float softplus(float x) { return larger_of(x, 0.0f) + ::log1pf(::expf(-abs(x))); }

// ---- loss
// -log softmax at the target, smoothed: (1 - e) (lse - target's logit) + e (lse - mean logit).
template <class V>
FT_HD inline V smoothed_loss(V lse, V target_logit, V mean_logit, V e) {
  return lse - target_logit + e * (target_logit - mean_logit);
}

// Weight of a target's loss in dynamic fine-tuning: its probability.
FT_HD inline double dynamic_weight(double lse, double target_logit) { return ::exp(target_logit - lse); }

}  // namespace math
}  // namespace ft
