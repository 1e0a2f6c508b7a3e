// Mixtures of experts as plain scalar maths: see leaf.h.
#pragma once
#include <numeric>

#include "engine/ops/route_rule.h"
#include "tests/reference/layers.h"

namespace ft::reference {

template <class V>
Values<V> softmax(const Values<V>& x) {
  double top = real(x[0]);
  for (const V& v : x) top = std::max(top, real(v));
  Values<V> p;
  V sum = 0;
  for (const V& v : x) p.push_back(std::exp(v - top)), sum += p.back();
  for (V& v : p) v /= sum;
  return p;
}

// Returns the indices of the k largest, the largest first.
template <class V>
std::vector<std::size_t> largest(const Values<V>& p, std::size_t k) {
  std::vector<std::size_t> ids(p.size());
  std::iota(ids.begin(), ids.end(), std::size_t{0});
  std::stable_sort(ids.begin(), ids.end(),
                   [&](std::size_t a, std::size_t b) { return real(p[a]) > real(p[b]); });
  ids.resize(k);
  return ids;
}

// Returns the scores of one token's logits.
template <class V>
Values<V> scores_of(const Values<V>& logits, const RouteRule& rule) {
  if (!rule.sigmoid) return softmax(logits);
  Values<V> p;
  for (const V& x : logits) p.push_back(1.0 / (1.0 + std::exp(-x)));
  return p;
}

// Returns the k experts that a token gets; bias: empty, or one number for each expert.
template <class V>
std::vector<std::size_t> chosen(const Values<V>& p, const Values<double>& bias, std::size_t k,
                                const RouteRule& rule) {
  Values<double> keys, groups;
  for (std::size_t e = 0; e < p.size(); ++e) keys.push_back(real(p[e]) + (bias.empty() ? 0 : bias[e]));
  const auto size = std::ptrdiff_t(p.size()) / rule.groups;
  for (auto at = keys.begin(); at != keys.end(); at += size) {
    Values<double> own(at, at + size);
    std::sort(own.rbegin(), own.rend());
    groups.push_back(rule.best == 2 ? own[0] + own[1] : own[0]);
  }
  const std::vector<std::size_t> kept = largest(groups, std::size_t(rule.kept));
  for (std::size_t e = 0; e < keys.size(); ++e)
    if (std::find(kept.begin(), kept.end(), e / std::size_t(size)) == kept.end()) keys[e] = -HUGE_VAL;
  return largest(keys, k);
}

// Returns the weights of one token's experts.
template <class V>
Values<V> weights_of(const Values<V>& p, const std::vector<std::size_t>& ids, const RouteRule& rule) {
  Values<V> w;
  V sum = 0;
  for (const std::size_t e : ids) w.push_back(p[e]), sum += p[e];
  for (V& v : w) v *= double(rule.scale) / (rule.normalised ? sum : V(1));
  return w;
}

// Returns E sum of f_e P_e over the tokens of all layers; p: the probabilities of each token.
template <class V>
V balance(const std::vector<Values<V>>& p, std::size_t k) {
  const std::size_t n = p[0].size();
  Values<V> mean(n);
  Values<double> chosen(n);
  for (const Values<V>& token : p) {
    for (std::size_t e = 0; e < n; ++e) mean[e] += token[e] / double(p.size());
    for (const std::size_t e : largest(token, k)) chosen[e] += 1 / double(p.size());
  }
  V sum = 0;
  for (std::size_t e = 0; e < n; ++e) sum += chosen[e] * mean[e];
  return double(n) * sum;
}

// Returns the sum of the experts' MLPs, whose parameters are `at`E.gate, .up and .down; the router is
// `router`, and `correction` a bias for the choice, if there is one. Each token's probabilities are appended
// to `probabilities`. `factor`: the most rows that an expert accepts, as a multiple of an even share; 0: no
// limit.
template <class V>
Values<V> experts(const Named<V>& in, const std::string& router, const std::string& at, std::size_t k,
                  const RouteRule& rule, const Values<V>& x, std::size_t rows, const Lora& lora,
                  std::vector<Values<V>>* probabilities = nullptr, double factor = 0) {
  const std::size_t width = x.size() / rows;
  Values<V> y(x.size());
  std::vector<std::size_t> taken(1000);
  Values<double> bias;
  if (in.contains("correction"))
    for (const V& b : in.at("correction")) bias.push_back(real(b));
  for (std::size_t t = 0; t < rows; ++t) {
    const Values<V> own(x.begin() + std::ptrdiff_t(t * width), x.begin() + std::ptrdiff_t((t + 1) * width));
    const Values<V> p = scores_of(linear(in, router, own, 1, lora), rule);
    const std::vector<std::size_t> ids = chosen(p, bias, k, rule);
    const Values<V> w = weights_of(p, ids, rule);
    for (std::size_t j = 0; j < k; ++j) {
      const double even = double(rows * k) / double(p.size());
      if (factor > 0 && double(taken[ids[j]]++) >= std::ceil(factor * even)) continue;
      const Values<V> z = mlp(in, at + std::to_string(ids[j]) + ".", Activation::silu, own, 1, lora);
      for (std::size_t i = 0; i < width; ++i) y[t * width + i] += w[j] * z[i];
    }
    if (probabilities) probabilities->push_back(p);
  }
  return y;
}

}  // namespace ft::reference
