// Layers as plain scalar maths, forward only, with parameters found by name. Templated on the scalar, so that
// complex steps give exact gradients: see leaf.h.
#pragma once
#include <map>
#include <string>

#include "engine/core/random.h"
#include "tests/reference/attention.h"
#include "tests/reference/leaf.h"

namespace ft::reference {

template <class V>
using Named = std::map<std::string, Values<V>>;

template <class V>
Values<V> add(Values<V> x, const Values<V>& y) {
  for (std::size_t i = 0; i < x.size(); ++i) x[i] += y[i];
  return x;
}

template <class V>
Values<V> times(Values<V> x, double factor) {
  for (V& v : x) v *= factor;
  return x;
}

// Returns x (rows, in) times the transpose of w (out, in): (rows, out).
template <class V>
Values<V> product(const Values<V>& x, const Values<V>& w, std::size_t rows) {
  const std::size_t in = x.size() / rows, out = w.size() / in;
  Values<V> y(rows * out);
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t o = 0; o < out; ++o)
      for (std::size_t i = 0; i < in; ++i) y[r * out + o] += x[r * in + i] * w[o * in + i];
  return y;
}

// Keeps and scales element i if number i % 8 of random.eight_at(i / 8) is at least p 65536, rounded.
template <class V>
Values<V> dropout(Values<V> x, double p, Random random) {
  const double limit = std::round(p * 65536);
  for (std::size_t i = 0; i < x.size() && p > 0; ++i) {
    const std::uint32_t number = random.eight_at(i / 8)[i % 8 / 2] >> i % 2 * 16 & 0xffff;
    x[i] *= number < limit ? 0 : 65536 / (65536 - limit);
  }
  return x;
}

// Options that all LoRA adapters of a layer have in common.
struct Lora {
  double scale = 1, dropout = 0;
  Random random = {};     // of the micro-step
  bool shared = false;    // OFT: all blocks have one rotation
  std::size_t terms = 5;  // OFT: of the series
};

// Returns the norms of the rows of W + scale B A, as constants.
template <class V>
Values<double> row_norms(const Values<V>& w, const Values<V>& a, const Values<V>& b, std::size_t out,
                         double scale) {
  const std::size_t in = w.size() / out, rank = b.size() / out;
  Values<double> norms;
  for (std::size_t o = 0; o < out; ++o) {
    double squares = 0;
    for (std::size_t i = 0; i < in; ++i) {
      double v = std::real(w[o * in + i]);
      for (std::size_t k = 0; k < rank; ++k)
        v += scale * std::real(b[o * rank + k]) * std::real(a[k * in + i]);
      squares += v * v;
    }
    norms.push_back(std::sqrt(squares));
  }
  return norms;
}

// Returns u M for M (r, out), where u adds up the columns of x with the same remainder by r (MiSS).
template <class V>
Values<V> shard_shared(const Values<V>& x, const Values<V>& m, std::size_t rows, std::size_t out) {
  const std::size_t in = x.size() / rows, r = m.size() / out;
  Values<V> y(rows * out);
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t o = 0; o < out; ++o)
      for (std::size_t j = 0; j < in; ++j) y[i * out + o] += x[i * in + j] * m[j % r * out + o];
  return y;
}

// Returns the product of w (out, in) and b (out, r) a (r, in), element by element (HiRA).
template <class V>
Values<V> times_low_rank(Values<V> w, const Values<V>& a, const Values<V>& b, std::size_t in) {
  const std::size_t out = w.size() / in, r = a.size() / in;
  for (std::size_t o = 0; o < out; ++o)
    for (std::size_t i = 0; i < in; ++i) {
      V sum = 0;
      for (std::size_t k = 0; k < r; ++k) sum += b[o * r + k] * a[k * in + i];
      w[o * in + i] *= sum;
    }
  return w;
}

// Returns a matrix of `elements` in rows of `in` that has the values at places, and zeros (SHiRA). places:
// the rows, then the columns.
template <class V>
Values<V> scattered(const Values<V>& values, const Values<V>& places, std::size_t elements, std::size_t in) {
  Values<V> all(elements);
  for (std::size_t i = 0; i < values.size(); ++i)
    all[std::size_t(std::real(places[i])) * in + std::size_t(std::real(places[values.size() + i]))] =
        values[i];
  return all;
}

// Returns the skew-symmetric matrix (n, n) whose elements above the diagonal begin at `above`.
template <class V>
Values<V> skew(const V* above, std::size_t n) {
  Values<V> q(n * n);
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t k = i + 1; k < n; ++k) q[k * n + i] = -(q[i * n + k] = *above++);
  return q;
}

// Returns I + 2 Q + 2 Q^2 + ... + Q^d with PEFT's number of terms.
template <class V>
Values<V> near_rotation(const Values<V>& q, std::size_t n, std::size_t terms) {
  Values<V> r(n * n), power(n * n);
  for (std::size_t i = 0; i < n; ++i) r[i * n + i] = power[i * n + i] = 1;
  const std::size_t last = terms == 2 ? 1 : std::max<std::size_t>(terms, 4) - 1;
  for (std::size_t exponent = 1; exponent <= last; ++exponent) {
    Values<V> next(n * n);
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t k = 0; k < n; ++k)
        for (std::size_t l = 0; l < n; ++l) next[i * n + k] += power[i * n + l] * q[l * n + k];
    power = next;
    r = add(r, times(power, exponent == last && terms > 2 ? 1 : 2));
  }
  return r;
}

// Returns x (rows, in) with its blocks of columns rotated (OFT). above: of each block's matrix.
template <class V>
Values<V> in_blocks_rotated(const Values<V>& x, const Values<V>& above, std::size_t rows, const Lora& lora) {
  const std::size_t in = x.size() / rows;
  std::size_t n = 2 * above.size() / in + 1;
  if (lora.shared)
    for (n = 2; n * (n - 1) / 2 < above.size();) ++n;
  Values<V> y(x.size());
  for (std::size_t first = 0; first < in; first += n) {
    const V* own = above.data() + (lora.shared ? 0 : first / n * (n * (n - 1) / 2));
    const Values<V> r = near_rotation(skew(own, n), n, lora.terms);
    for (std::size_t i = 0; i < rows; ++i)
      for (std::size_t c = 0; c < n; ++c)
        for (std::size_t k = 0; k < n; ++k) y[i * in + first + c] += x[i * in + first + k] * r[k * n + c];
  }
  return y;
}

// Returns x W^T + b + scale (dropout(x) A^T B^T + B's bias), with the terms that `module` has; with OFT x is
// rotated first. With magnitudes m (DoRA), where n is the norms of the rows of V = W + scale B A:
// x W^T + b + (m / n) dropout(x) V^T - dropout(x) W^T.
template <class V>
Values<V> linear(const Named<V>& in, const std::string& module, const Values<V>& x, std::size_t rows,
                 const Lora& lora = {}) {
  const auto find = [&](const std::string& name) {
    const auto at = in.find(module + name);
    return at == in.end() ? nullptr : &at->second;
  };
  const Values<V>* above = find(".oft_R.weight");
  Values<V> y = product(above ? in_blocks_rotated(x, *above, rows, lora) : x, *find(".weight"), rows);
  if (const Values<V>* bias = find(".bias"))
    for (std::size_t i = 0; i < y.size(); ++i) y[i] += (*bias)[i % bias->size()];
  const std::string a = ".lora_A.weight", b = ".lora_B.weight", shared = ".miss_block";
  if (const Values<V>* m = find(shared)) {
    const Values<V> dropped = dropout(x, lora.dropout, lora.random.with(module + shared));
    return add(y, shard_shared(dropped, *m, rows, y.size() / rows));
  }
  const std::string hira_a = ".hira_A", hira_b = ".hira_B";
  if (find(hira_a)) {
    const Values<V>& w = *find(".weight");
    const std::size_t width = x.size() / rows;
    const Values<V> dropped = dropout(x, lora.dropout, lora.random.with(module + hira_a));
    return add(y, product(dropped, times_low_rank(w, *find(hira_a), *find(hira_b), width), rows));
  }
  if (const Values<V>* places = find(".shira_indices"))
    return add(
        y, product(x, scattered(*find(".shira_weight"), *places, find(".weight")->size(), x.size() / rows),
                   rows));
  if (!find(a)) return y;
  const Values<V> dropped = dropout(x, lora.dropout, lora.random.with(module + a));
  Values<V> added = product(product(dropped, *find(a), rows), *find(b), rows);
  if (const Values<V>* bias = find(".lora_B.bias"))
    for (std::size_t i = 0; i < added.size(); ++i) added[i] += (*bias)[i % bias->size()];
  added = times(added, lora.scale);
  const Values<V>* m = find(".lora_magnitude_vector");
  if (!m) return add(y, added);
  const Values<double> n = row_norms(*find(".weight"), *find(a), *find(b), m->size(), lora.scale);
  const Values<V> own = product(dropped, *find(".weight"), rows);
  for (std::size_t i = 0; i < y.size(); ++i) {
    const std::size_t o = i % n.size();
    y[i] += (*m)[o] / n[o] * (own[i] + added[i]) - own[i];
  }
  return y;
}

// Returns down(dropout(f(gate(x)) up(x))), or without an up down(dropout(f(gate(x)))). `at`: the prefix of
// their names.
template <class V>
Values<V> mlp(const Named<V>& in, const std::string& at, Activation f, const Values<V>& x, std::size_t rows,
              const Lora& lora = {}, double dropped = 0) {
  Values<V> inner = linear(in, at + "gate", x, rows, lora);
  for (V& v : inner) v = activate(f, v);
  if (in.contains(at + "up.weight")) {
    const Values<V> up = linear(in, at + "up", x, rows, lora);
    for (std::size_t i = 0; i < up.size(); ++i) inner[i] *= up[i];
  }
  inner = dropout(inner, dropped, lora.random.with(at + "down").with("dropout"));
  return linear(in, at + "down", inner, rows, lora);
}

}  // namespace ft::reference
