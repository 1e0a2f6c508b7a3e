// The short convolution and the gated delta rule as plain scalar maths, one token after another, forward
// only. Templated on the scalar, so that complex steps give exact gradients: see leaf.h.
#pragma once
#include <cstdint>

#include "engine/ops/recurrent.h"
#include "tests/reference/leaf.h"

namespace ft::reference {

using Starts = std::vector<std::int64_t>;  // first rows of the sequences, and the end

// x (rows, C), w (C, n); before a sequence everything is zero.
template <class V>
Values<V> causal_conv(const Values<V>& x, const Values<V>& w, std::size_t taps, const Starts& starts) {
  const std::size_t columns = w.size() / taps;
  Values<V> y(x.size());
  for (std::size_t s = 0; s + 1 < starts.size(); ++s)
    for (std::int64_t t = starts[s]; t < starts[s + 1]; ++t)
      for (std::size_t c = 0; c < columns; ++c) {
        V sum = 0;
        for (std::size_t j = 0; j < taps; ++j) {
          const std::int64_t from = t - static_cast<std::int64_t>(taps - 1 - j);
          if (from >= starts[s]) sum += w[c * taps + j] * x[static_cast<std::size_t>(from) * columns + c];
        }
        y[static_cast<std::size_t>(t) * columns + c] = activate(Activation::silu, sum);
      }
  return y;
}

// Returns -exp(a_log) log(1 + exp(a + dt_bias)); a (rows, V).
template <class V>
Values<V> delta_decay(const Values<V>& a, const Values<V>& a_log, const Values<V>& dt_bias) {
  Values<V> g(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    const std::size_t h = i % a_log.size();
    g[i] = -std::exp(a_log[h]) * std::log(1.0 + std::exp(a[i] + dt_bias[h]));
  }
  return g;
}

// Column i of head h in row t divided by the root of the sum of the head's squares and 1e-6.
template <class V>
Values<V> unit_heads(const Values<V>& x, std::size_t width) {
  Values<V> y(x.size());
  for (std::size_t from = 0; from < x.size(); from += width) {
    V squares = 1e-6;
    for (std::size_t i = 0; i < width; ++i) squares += x[from + i] * x[from + i];
    for (std::size_t i = 0; i < width; ++i) y[from + i] = x[from + i] / std::sqrt(squares);
  }
  return y;
}

// q, k (rows, K k), v (rows, V v), g and beta (rows, V).
template <class V>
Values<V> delta_rule(const Values<V>& q, const Values<V>& k, const Values<V>& v, const Values<V>& g,
                     const Values<V>& beta, const DeltaHeads& h, const Starts& starts) {
  const auto width = static_cast<std::size_t>(h.key_width), columns = static_cast<std::size_t>(h.value_width);
  const auto heads = static_cast<std::size_t>(h.values), keys = static_cast<std::size_t>(h.keys);
  const Values<V> queries = unit_heads(q, width), units = unit_heads(k, width);
  Values<V> o(v.size());
  for (std::size_t s = 0; s + 1 < starts.size(); ++s)
    for (std::size_t head = 0; head < heads; ++head) {
      Values<V> state(width * columns);
      for (std::int64_t row = starts[s]; row < starts[s + 1]; ++row) {
        const auto t = static_cast<std::size_t>(row);
        const std::size_t key = (t * keys + head / (heads / keys)) * width,
                          value = (t * heads + head) * columns;
        const V decay = std::exp(g[t * heads + head]);
        for (V& e : state) e *= decay;
        for (std::size_t c = 0; c < columns; ++c) {
          V read = 0, result = 0;
          for (std::size_t i = 0; i < width; ++i) read += state[i * columns + c] * units[key + i];
          const V d = beta[t * heads + head] * (v[value + c] - read);
          for (std::size_t i = 0; i < width; ++i) {
            state[i * columns + c] += units[key + i] * d;
            result += state[i * columns + c] * queries[key + i] / std::sqrt(static_cast<double>(width));
          }
          o[value + c] = result;
        }
      }
    }
  return o;
}

}  // namespace ft::reference
