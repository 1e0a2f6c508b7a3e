// The elementwise computations of Ops and their gradients as plain scalar maths, written independently of
// engine/ops/math.h. V is double, or std::complex<double> for complex-step derivatives: the imaginary part of
// f(x + i h) is h f'(x), exact to rounding for h = 1e-20. Matrices are rows one after another.
#pragma once
#include <algorithm>
#include <cmath>
#include <complex>
#include <vector>

#include "engine/ops/math.h"

namespace ft::reference {

template <class V>
using Values = std::vector<V>;

inline double real(double v) { return v; }
inline double real(std::complex<double> v) { return v.real(); }

// 2 / sqrt(pi) sum of (-1)^n x^(2 n + 1) / (n! (2 n + 1))
template <class V>
V erf(V x) {
  V power = x, sum = x;
  for (int n = 1; n < 80; ++n) {
    power *= -x * x / double(n);
    sum += power / double(2 * n + 1);
  }
  return sum * 1.1283791670955126;
}

template <class V>
V activate(Activation f, V x) {
  using std::exp, std::tanh;
  switch (f) {
    case Activation::silu:
      return x / (1.0 + exp(-x));
    case Activation::gelu:
      return 0.5 * x * (1.0 + erf(x * std::sqrt(0.5)));
    case Activation::gelu_tanh:
      return 0.5 * x * (1.0 + tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case Activation::relu:
      return real(x) > 0 ? x : V(0);
    case Activation::sigmoid:
      return 1.0 / (1.0 + exp(-x));
  }
  return x;
}

inline double activation_slope(Activation f, double x) {
  const double s = 1 / (1 + std::exp(-x)), k = std::sqrt(2 / M_PI);
  const double t = std::tanh(k * (x + 0.044715 * x * x * x));
  switch (f) {
    case Activation::silu:
      return s * (1 + x * (1 - s));
    case Activation::gelu:
      return 0.5 * (1 + std::erf(x * std::sqrt(0.5))) + x * std::exp(-x * x / 2) / std::sqrt(2 * M_PI);
    case Activation::gelu_tanh:
      return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * k * (1 + 3 * 0.044715 * x * x);
    case Activation::relu:
      return x > 0 ? 1 : 0;
    case Activation::sigmoid:
      return s * (1 - s);
  }
  return 0;
}

template <class V>
Values<V> rms_norm(const Values<V>& x, const Values<V>& w, double eps, double offset = 0) {
  Values<V> y(x.size());
  const std::size_t c = w.size();
  for (std::size_t r = 0; r < x.size(); r += c) {
    V squares = 0;
    for (std::size_t i = 0; i < c; ++i) squares += x[r + i] * x[r + i];
    const V rstd = 1.0 / std::sqrt(squares / double(c) + eps);
    for (std::size_t i = 0; i < c; ++i) y[r + i] = x[r + i] * rstd * (offset + w[i]);
  }
  return y;
}

// Adds to dx and dw.
inline void rms_norm_grad(Values<double>& dx, Values<double>& dw, const Values<double>& dy,
                          const Values<double>& x, const Values<double>& w, double eps, double offset = 0) {
  const std::size_t c = w.size();
  for (std::size_t r = 0; r < x.size(); r += c) {
    double squares = 0, dot = 0;
    for (std::size_t i = 0; i < c; ++i) squares += x[r + i] * x[r + i];
    const double rstd = 1.0 / std::sqrt(squares / double(c) + eps);
    for (std::size_t i = 0; i < c; ++i) dot += dy[r + i] * (offset + w[i]) * x[r + i];
    for (std::size_t i = 0; i < c; ++i) {
      dx[r + i] += rstd * (dy[r + i] * (offset + w[i]) - x[r + i] * rstd * rstd * dot / double(c));
      dw[i] += dy[r + i] * x[r + i] * rstd;
    }
  }
}

template <class V>
Values<V> layer_norm(const Values<V>& x, const Values<V>& w, const Values<V>& b, double eps) {
  Values<V> y(x.size());
  const std::size_t c = w.size();
  for (std::size_t r = 0; r < x.size(); r += c) {
    V mean = 0, variance = 0;
    for (std::size_t i = 0; i < c; ++i) mean += x[r + i] / double(c);
    for (std::size_t i = 0; i < c; ++i) variance += (x[r + i] - mean) * (x[r + i] - mean) / double(c);
    for (std::size_t i = 0; i < c; ++i)
      y[r + i] = (x[r + i] - mean) / std::sqrt(variance + eps) * w[i] + b[i];
  }
  return y;
}

// Adds to dx, dw and db.
inline void layer_norm_grad(Values<double>& dx, Values<double>& dw, Values<double>& db,
                            const Values<double>& dy, const Values<double>& x, const Values<double>& w,
                            double eps) {
  const std::size_t c = w.size();
  const Values<double> ones(c, 1), zeros(c, 0), normed = layer_norm(x, ones, zeros, eps);
  for (std::size_t r = 0; r < x.size(); r += c) {
    double mean = 0, variance = 0, d_mean = 0, d_variance = 0;  // the chain rule, without short cuts
    for (std::size_t i = 0; i < c; ++i) mean += x[r + i] / double(c);
    for (std::size_t i = 0; i < c; ++i) variance += (x[r + i] - mean) * (x[r + i] - mean) / double(c);
    const double std = std::sqrt(variance + eps);
    for (std::size_t i = 0; i < c; ++i) {
      const double g = dy[r + i] * w[i];
      d_mean -= g / std;
      d_variance -= g * (x[r + i] - mean) / (2 * std * std * std);
      dw[i] += dy[r + i] * normed[r + i];
      db[i] += dy[r + i];
    }
    for (std::size_t i = 0; i < c; ++i)
      dx[r + i] +=
          dy[r + i] * w[i] / std + d_mean / double(c) + d_variance * 2 * (x[r + i] - mean) / double(c);
  }
}

// Returns transformers' LabelSmoother: (1 - e) times the target's -log p, plus e times the mean of all -log
// p.
template <class V>
V cross_entropy(const Values<V>& logits, std::size_t target, double e) {
  double top = real(logits[0]);
  for (const V& l : logits) top = std::max(top, real(l));
  V sum = 0, mean = 0;
  for (const V& l : logits) sum += std::exp(l - top);
  const V lse = top + std::log(sum);
  for (const V& l : logits) mean += (lse - l) / double(logits.size());
  return (1 - e) * (lse - logits[target]) + e * mean;
}

inline Values<double> cross_entropy_grad(const Values<double>& logits, std::size_t target, double e) {
  double top = logits[0], sum = 0;
  for (const double l : logits) top = std::max(top, l);
  for (const double l : logits) sum += std::exp(l - top);
  Values<double> d;
  for (const double l : logits) d.push_back(std::exp(l - top) / sum - e / double(logits.size()));
  d[target] -= 1 - e;
  return d;
}

// Rotates the pairs (i, i + half) of the first columns of one head by the angles; other columns stay.
template <class V>
Values<V> rotate(const Values<V>& x, const Values<double>& cos, const Values<double>& sin) {
  Values<V> y = x;
  const std::size_t half = cos.size();
  for (std::size_t i = 0; i < half; ++i) {
    y[i] = x[i] * cos[i] - x[i + half] * sin[i];
    y[i + half] = x[i + half] * cos[i] + x[i] * sin[i];
  }
  return y;
}

}  // namespace ft::reference
