// Attention by the book: one query at a time, all its scores in memory. Templated on the scalar, so that the
// gradient, which is written out for double, can itself be checked by complex steps.
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

  std::int64_t rows() const { return starts.back(); }
  std::int64_t query_size() const { return rows() * heads.query * heads.width; }
  std::int64_t key_size() const { return rows() * heads.key_value * heads.width; }

  // Calls f(query row, first and last + 1 key row it sees, query head, key head).
  template <class F>
  void for_each_query(F f) const {
    for (std::size_t s = 1; s < starts.size(); ++s)
      for (std::int64_t i = starts[s - 1]; i < starts[s]; ++i)
        for (std::int64_t h = 0; h < heads.query; ++h) {
          const std::int64_t to = causal ? i + 1 : starts[s];
          const std::int64_t from =
              window > 0 ? std::max<std::int64_t>(starts[s - 1], i - window + 1) : starts[s - 1];
          f(i, from, to, h, h / (heads.query / heads.key_value));
        }
  }
  std::size_t at_query(std::int64_t row, std::int64_t head) const {
    return static_cast<std::size_t>((row * heads.query + head) * heads.width);
  }
  std::size_t at_key(std::int64_t row, std::int64_t head) const {
    return static_cast<std::size_t>((row * heads.key_value + head) * heads.width);
  }

  // y (rows, H D), lse (H, rows); q (rows, H D), k and v (rows, KV D)
  template <class S>
  void forward(std::vector<S>& y, std::vector<S>& lse, const std::vector<S>& q, const std::vector<S>& k,
               const std::vector<S>& v) const {
    const auto width = static_cast<std::size_t>(heads.width);
    y.assign(q.size(), S{});
    lse.assign(static_cast<std::size_t>(heads.query * rows()), S{});
    for_each_query([&](auto i, auto from, auto to, auto h, auto g) {
      std::vector<S> p;
      double top = -1e300;
      for (auto j = from; j < to; ++j) {
        S s{};
        for (std::size_t d = 0; d < width; ++d) s += q[at_query(i, h) + d] * k[at_key(j, g) + d];
        p.push_back(s * scale);
        top = std::max(top, std::real(p.back()));
      }
      S total{};
      for (S& x : p) total += x = std::exp(x - top);
      for (auto j = from; j < to; ++j)
        for (std::size_t d = 0; d < width; ++d)
          y[at_query(i, h) + d] += p[static_cast<std::size_t>(j - from)] / total * v[at_key(j, g) + d];
      lse[static_cast<std::size_t>(h * rows() + i)] = std::log(total) + top;
    });
  }

  void backward(std::vector<double>& dq, std::vector<double>& dk, std::vector<double>& dv,
                const std::vector<double>& dy, const std::vector<double>& q, const std::vector<double>& k,
                const std::vector<double>& v) const {
    const auto width = static_cast<std::size_t>(heads.width);
    std::vector<double> y, lse;
    forward(y, lse, q, k, v);
    dq.assign(q.size(), 0);
    dk.assign(k.size(), 0);
    dv.assign(v.size(), 0);
    for_each_query([&](auto i, auto from, auto to, auto h, auto g) {
      const std::size_t a = at_query(i, h);
      double delta = 0;
      for (std::size_t d = 0; d < width; ++d) delta += dy[a + d] * y[a + d];
      for (auto j = from; j < to; ++j) {
        const std::size_t b = at_key(j, g);
        double s = 0, dp = 0;
        for (std::size_t d = 0; d < width; ++d) {
          s += q[a + d] * k[b + d];
          dp += dy[a + d] * v[b + d];
        }
        const double p = std::exp(s * scale - lse[static_cast<std::size_t>(h * rows() + i)]);
        const double ds = p * (dp - delta) * scale;
        for (std::size_t d = 0; d < width; ++d) {
          dq[a + d] += ds * k[b + d];
          dk[b + d] += ds * q[a + d];
          dv[b + d] += p * dy[a + d];
        }
      }
    });
  }
};

}  // namespace ft::reference
