// Reference attention: one query at a time, with all its scores in memory. Templated on the scalar, so that
// complex steps can check the gradient, which is written out for double.
#pragma once
#include <algorithm>
#include <cmath>
#include <complex>
#include <vector>

#include "engine/ops/ops.h"

namespace ft::reference {

struct Attention {
  Heads heads;
  std::vector<std::int32_t> starts;
  bool causal = true;
  std::int64_t window = 0;
  double scale = 1;
  double cap = 0;                             // of scaled scores; 0: none
  std::vector<std::int32_t> key_starts = {};  // for cross-attention; empty: starts
  std::int64_t reach = -1;                    // of the bias; -1: none
  double dropout = 0;
  Random random = {};
  const BlockLayout* blocks = nullptr;  // sparse attention; null: dense

  const std::vector<std::int32_t>& starts_of_keys() const { return key_starts.empty() ? starts : key_starts; }
  std::int64_t rows() const { return starts.back(); }
  std::int64_t key_rows() const { return starts_of_keys().back(); }
  std::int64_t query_size() const { return rows() * heads.query * heads.width; }
  std::int64_t key_size() const { return key_rows() * heads.key_value * heads.width; }
  std::int64_t bias_rows() const { return std::max<std::int64_t>(0, 2 * reach + 1); }

  // The first rows of a query's sequence, among queries and among keys.
  struct Origin {
    std::int64_t query, key;
  };
  Origin origin(std::int64_t row) const {
    std::size_t s = 0;
    while (starts[s + 1] <= row) ++s;
    return {starts[s], starts_of_keys()[s]};
  }
  std::size_t at_bias(std::int64_t query, std::int64_t key, std::int64_t head) const {
    const Origin o = origin(query);
    const std::int64_t distance = std::clamp((key - o.key) - (query - o.query), -reach, reach);
    return static_cast<std::size_t>((reach + distance) * heads.query + head);
  }
  double keep(std::int64_t query, std::int64_t key, std::int64_t head) const {
    if (dropout == 0) return 1;
    const auto own = static_cast<std::uint64_t>(key - origin(query).key);
    const auto row = static_cast<std::uint64_t>(query * heads.query + head);
    const double limit = std::round(dropout * 65536);
    const std::uint32_t number = random.eight_at(row << 32 | own / 8)[own % 8 / 2] >> own % 2 * 16 & 0xffff;
    return number < limit ? 0 : 65536 / (65536 - limit);
  }

  // Calls f(query row, first and last + 1 key row that it sees, query head, key head).
  template <class F>
  void for_each_query(F f) const {
    for (std::size_t s = 1; s < starts.size(); ++s)
      for (std::int64_t i = starts[s - 1]; i < starts[s]; ++i)
        for (std::int64_t h = 0; h < heads.query; ++h) {
          const std::int64_t to = causal ? i + 1 : starts_of_keys()[s], first = starts_of_keys()[s - 1];
          const std::int64_t from = window > 0 ? std::max<std::int64_t>(first, i - window + 1) : first;
          f(i, from, to, h, h / (heads.query / heads.key_value));
        }
  }
  std::size_t at_query(std::int64_t row, std::int64_t head) const {
    return static_cast<std::size_t>((row * heads.query + head) * heads.width);
  }
  std::size_t at_key(std::int64_t row, std::int64_t head) const {
    return static_cast<std::size_t>((row * heads.key_value + head) * heads.width);
  }

  // Returns the keys in [from, to) that a query row sees.
  std::vector<std::int64_t> keys(std::int64_t query, std::int64_t from, std::int64_t to,
                                 std::int64_t head) const {
    const Origin o = origin(query);
    std::vector<std::int64_t> seen;
    for (std::int64_t j = from; j < to; ++j)
      if (!blocks || blocks->keeps(blocks->heads() > 1 ? head : 0, (query - o.query) / blocks->block(),
                                   (j - o.key) / blocks->block()))
        seen.push_back(j);
    return seen;
  }

  // y (rows, H D), lse (H, rows); q (rows, H D), k and v (key rows, KV D), bias (2 reach + 1, H)
  template <class S>
  void forward(std::vector<S>& y, std::vector<S>& lse, const std::vector<S>& q, const std::vector<S>& k,
               const std::vector<S>& v, const std::vector<S>& bias = {}) const {
    const auto width = static_cast<std::size_t>(heads.width);
    y.assign(q.size(), S{});
    lse.assign(static_cast<std::size_t>(heads.query * rows()), S{});
    for_each_query([&](auto i, auto from, auto to, auto h, auto g) {
      std::vector<S> p;
      double top = -1e300;
      const auto seen = keys(i, from, to, h);
      for (const auto j : seen) {
        S s{};
        for (std::size_t d = 0; d < width; ++d) s += q[at_query(i, h) + d] * k[at_key(j, g) + d];
        const S score = cap == 0 ? s * scale : cap * std::tanh(s * scale / cap);
        p.push_back(score + (reach < 0 ? S{} : bias[at_bias(i, j, h)]));
        top = std::max(top, std::real(p.back()));
      }
      S total{};
      for (S& x : p) total += x = std::exp(x - top);
      for (std::size_t n = 0; n < p.size(); ++n)
        for (std::size_t d = 0; d < width; ++d)
          y[at_query(i, h) + d] += p[n] * keep(i, seen[n], h) / total * v[at_key(seen[n], g) + d];
      lse[static_cast<std::size_t>(h * rows() + i)] = std::log(total) + top;
    });
  }

  void backward(std::vector<double>& dq, std::vector<double>& dk, std::vector<double>& dv,
                std::vector<double>& dbias, const std::vector<double>& dy, const std::vector<double>& q,
                const std::vector<double>& k, const std::vector<double>& v,
                const std::vector<double>& bias = {}) const {
    const auto width = static_cast<std::size_t>(heads.width);
    std::vector<double> y, lse;
    forward(y, lse, q, k, v, bias);
    dbias.assign(bias.size(), 0);
    dq.assign(q.size(), 0);
    dk.assign(k.size(), 0);
    dv.assign(v.size(), 0);
    for_each_query([&](auto i, auto from, auto to, auto h, auto g) {
      const std::size_t a = at_query(i, h);
      double delta = 0;
      for (std::size_t d = 0; d < width; ++d) delta += dy[a + d] * y[a + d];
      for (const auto j : keys(i, from, to, h)) {
        const std::size_t b = at_key(j, g);
        double s = 0, dp = 0;
        for (std::size_t d = 0; d < width; ++d) {
          s += q[a + d] * k[b + d];
          dp += dy[a + d] * v[b + d];
        }
        const double shift = reach < 0 ? 0 : bias[at_bias(i, j, h)];
        const double part = cap == 0 ? 0 : std::tanh(s * scale / cap),
                     score = cap == 0 ? s * scale : cap * part;
        const double p = std::exp(score + shift - lse[static_cast<std::size_t>(h * rows() + i)]);
        const double kept = keep(i, j, h), ds = p * (kept * dp - delta) * (1 - part * part);
        if (reach >= 0) dbias[at_bias(i, j, h)] += ds;
        for (std::size_t d = 0; d < width; ++d) {
          dq[a + d] += ds * scale * k[b + d];
          dk[b + d] += ds * scale * q[a + d];
          dv[b + d] += kept * p * dy[a + d];
        }
      }
    });
  }
};

}  // namespace ft::reference
