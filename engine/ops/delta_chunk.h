// The gated delta rule in chunks, as CPUs compute it (Yang et al., "Parallelizing linear transformers with
// the delta rule", 2024); engine/cuda/kernels/delta_rule.h has the steps of GPUs. With S the state before a
// chunk, s_i the sum of g up to row i, and
//   A_ij = beta_i k_i k_j e^(s_i - s_j) for j < i,  P_ij = q_i k_j e^(s_i - s_j) for j <= i,
// the rows d_i of the rule solve (I + A) D = R, R_i = beta_i (v_i - e^s_i S^T k_i), and
//   o_i = e^s_i S^T q_i + (P D)_i,  S <- e^s_L S + sum over i of k_i e^(s_L - s_i) d_i^T.
//
// An Executor computes on small matrices, in vectors.
//   each(rows, columns, f): calls f(part, row, column) for all; a part is as many columns as the executor
//     computes at once, with load(p), store(p, x), all(number), and before(x, n), which is x in the first n
//     of these columns and zero in others;
//   rows(n, f): calls f(row);
//   transpose(y, x, rows, columns): y (columns, rows) = x^T;
//   load(y, x, stride, rows, columns), store(y, stride, x, rows, columns): with conversion;
//   dot(a, b, n), exp(x): used inside of f;
//   decays(y, sum, n): y_ij = e^(sum_i - sum_j) for j <= i < n, anything above;
//   product(y, m, n, Left a, b, depth, add): y = or += a b. b and y have whole vectors of columns;
//   solve(a, x, m, n), solve_back(a, x, m, n): x = (I + a)^-1 x, or with the transpose of I + a.
#pragma once
#include "engine/ops/delta_operands.h"
#include "engine/ops/delta_room.h"
#include "engine/ops/math.h"

namespace ft {

// A left operand: element (i, j) is data[i row + j column].
struct DeltaLeft {
  const float* data;
  std::int64_t row, column;
};
FT_HD inline DeltaLeft plain(const DeltaMatrix& m) { return {m.data, m.ld, 1}; }
FT_HD inline DeltaLeft transposed(const DeltaMatrix& m) { return {m.data, 1, m.ld}; }

template <class T, class Executor>
class DeltaHead {
 public:
  using i64 = std::int64_t;

  // Computes for key head `item % K`, for every sequence whose number is item / K, modulo the number of items
  // that key head has.
  FT_HD DeltaHead(Executor& e, const DeltaOperands& x, i64 item)
      : e_(e),
        x_(x),
        h_(x.heads),
        m_(delta_room(x.heads, static_cast<float*>(x.work.data) + item * x.work.stride,
                      x.o_grad.data != nullptr)),
        head_(item % x.heads.keys),
        number_(item / x.heads.keys),
        count_(x.work.rows / x.heads.keys),
        group_(x.heads.values / x.heads.keys) {}

  FT_HD void forward() {
    each_sequence([&](i64 from, i64 to) { forward(from, to); });
  }
  FT_HD void backward() {
    each_sequence([&](i64 from, i64 to) { backward(from, to); });
  }

 private:
  template <class U>
  FT_HD U* at(const View& x, i64 row, i64 column) const {
    return static_cast<U*>(x.data) + row * x.stride + column;
  }
  FT_HD void each_sequence(auto f) {
    i64 number = 0;
    for (i64 from = 0; from < x_.q.rows; ++number) {
      i64 to = from + 1;
      while (to < x_.q.rows && x_.first[to] == x_.first[from]) ++to;
      if (number % count_ == number_) f(from, to);
      from = to;
    }
  }
  FT_HD i64 value_head(i64 j) const { return head_ * group_ + j; }
  FT_HD DeltaMatrix part(const DeltaMatrix& m, i64 j) const { return {m.row(j * h_.key_width), m.ld}; }
  // The state of a value head in a row of memory or states.
  FT_HD float* stored(const View& x, i64 row, i64 j) const {
    return at<float>(x, row, value_head(j) * h_.key_width * h_.value_width);
  }

  FT_HD void forward(i64 from, i64 to) {
    const bool continues = x_.memory.data && x_.past[from] > 0;
    for (i64 j = 0; j < group_ && continues; ++j)
      read_state(part(m_.state, j), stored(x_.memory, x_.slot[from], j));
    for (i64 row = from; row < to; row += kDeltaChunk) {
      const bool zero = row == from && !continues;
      load_keys(row, to);
      for (i64 j = 0; j < group_; ++j) {
        solve(row, j, zero);
        results(row, j, zero);
        if (row + rows_ < to || x_.memory.data) advance(j, zero);
      }
    }
    for (i64 j = 0; j < group_ && x_.memory.data; ++j)
      write_state(stored(x_.memory, x_.slot[from], j), part(m_.state, j));
  }

  // Computes the states between chunks first, and then the gradients from the last chunk to the first.
  FT_HD void backward(i64 from, i64 to) {
    for (i64 row = from; row + kDeltaChunk < to; row += kDeltaChunk) {
      load_keys(row, to);
      for (i64 j = 0; j < group_; ++j) {
        solve(row, j, row == from);
        advance(j, row == from);
        write_state(stored(x_.states, (row + kDeltaChunk) / kDeltaChunk - 1, j), part(m_.state, j));
      }
    }
    const i64 last = from + (to - from - 1) / kDeltaChunk * kDeltaChunk;
    for (i64 row = last; row >= from; row -= kDeltaChunk) {
      load_keys(row, to);
      e_.each(rows_, h_.key_width, [&](auto part, i64 r, i64 c) {
        part.store(&m_.dq(r, c), part.all(0));
        part.store(&m_.dk(r, c), part.all(0));
      });
      for (i64 j = 0; j < group_; ++j) {
        if (row > from) read_state(part(m_.state, j), stored(x_.states, row / kDeltaChunk - 1, j));
        solve(row, j, row == from);
        backward(row, j, row == from, row == last);
      }
      store_keys(row);
    }
  }

  FT_HD void read_state(DeltaMatrix y, const float* x) {
    e_.load(y, x, h_.value_width, h_.key_width, h_.value_width);
  }
  FT_HD void write_state(float* y, DeltaMatrix x) {
    e_.store(y, h_.value_width, x, h_.key_width, h_.value_width);
  }
  // y *= factor(row), for rows of n columns.
  FT_HD void scale(DeltaMatrix y, i64 rows, i64 n, const auto& factor) { scale(y, y, rows, n, factor); }
  FT_HD void scale(DeltaMatrix y, DeltaMatrix x, i64 rows, i64 n, const auto& factor) {  // y = factor(row) x
    e_.each(rows, n, [&](auto part, i64 r, i64 c) {
      part.store(&y(r, c), part.all(factor(r)) * part.load(&x(r, c)));
    });
  }

  // Loads and normalises queries and keys of the chunk that begins at `row`, and multiplies them.
  FT_HD void load_keys(i64 row, i64 to) {
    rows_ = to - row < kDeltaChunk ? to - row : kDeltaChunk;
    const i64 n = h_.key_width, column = head_ * n;
    const float unit = 1 / math::sqrt(static_cast<float>(n));
    const auto& m = m_;
    e_.load(m.q, at<const T>(x_.q, row, column), x_.q.stride, rows_, n);
    e_.load(m.k, at<const T>(x_.k, row, column), x_.k.stride, rows_, n);
    e_.rows(rows_, [&](i64 r) {
      m.q_rstd[r] = 1 / math::sqrt(e_.dot(m.q.row(r), m.q.row(r), n) + kDeltaEps);
      m.k_rstd[r] = 1 / math::sqrt(e_.dot(m.k.row(r), m.k.row(r), n) + kDeltaEps);
    });
    scale(m.q, rows_, n, [&](i64 r) { return m.q_rstd[r] * unit; });
    scale(m.k, rows_, n, [&](i64 r) { return m.k_rstd[r]; });
    e_.transpose(m.kt, m.k, rows_, n);
    e_.product(m.kk, rows_, rows_, plain(m.k), m.kt, n, false);
    e_.product(m.qk, rows_, rows_, plain(m.q), m.kt, n, false);
  }

  // Computes d of value head j. zero: the state is zero, and need not be there.
  FT_HD void solve(i64 row, i64 j, bool zero) {
    const i64 head = value_head(j), n = h_.value_width, last = rows_ - 1;
    const auto& m = m_;
    e_.load(m.v, at<const T>(x_.v, row, head * n), x_.v.stride, rows_, n);
    e_.rows(1, [&](i64) {
      float sum = 0;
      for (i64 r = 0; r < rows_; ++r) m.sum[r] = sum += *at<const float>(x_.g, row + r, head);
    });
    e_.rows(rows_, [&](i64 r) {
      m.beta[r] = *at<const float>(x_.beta, row + r, head);
      m.up[r] = e_.exp(m.sum[r]);
      m.rest[r] = e_.exp(m.sum[last] - m.sum[r]);
    });
    e_.decays(m.decay, m.sum, rows_);
    e_.each(rows_, rows_, [&](auto part, i64 r, i64 c) {
      const auto decay = part.load(&m.decay(r, c));
      part.store(&m.a(r, c), part.before(part.all(m.beta[r]) * part.load(&m.kk(r, c)) * decay, r - c));
      part.store(&m.p(r, c), part.before(part.load(&m.qk(r, c)) * decay, r - c + 1));
    });
    if (!zero) e_.product(m.read, rows_, n, plain(m.k), part(m.state, j), h_.key_width, false);
    e_.each(rows_, n, [&](auto part, i64 r, i64 c) {
      auto right = part.load(&m.v(r, c));
      if (!zero) right = right - part.all(m.up[r]) * part.load(&m.read(r, c));
      part.store(&m.d(r, c), part.all(m.beta[r]) * right);
    });
    e_.solve(m.a, m.d, rows_, n);
  }

  FT_HD void results(i64 row, i64 j, bool zero) {
    const i64 n = h_.value_width;
    const auto& m = m_;
    if (!zero) {
      e_.product(m.o, rows_, n, plain(m.q), part(m.state, j), h_.key_width, false);
      scale(m.o, rows_, n, [&](i64 r) { return m.up[r]; });
    }
    e_.product(m.o, rows_, n, plain(m.p), m.d, rows_, !zero);
    e_.store(at<T>(x_.o, row, value_head(j) * n), x_.o.stride, m.o, rows_, n);
  }

  // Replaces the state by the state after the chunk. Uses m.read.
  FT_HD void advance(i64 j, bool zero) {
    const i64 n = h_.value_width;
    const auto& m = m_;
    const DeltaMatrix state = part(m.state, j);
    const float keep = m.up[rows_ - 1];
    scale(m.read, m.d, rows_, n, [&](i64 r) { return m.rest[r]; });
    if (!zero) scale(state, h_.key_width, n, [&](i64) { return keep; });
    e_.product(state, h_.key_width, n, transposed(m.k), m.read, rows_, !zero);
  }

  // Computes the gradients of value head j after solve(). zero: as in solve(). end: nothing comes after the
  // chunk, and dstate need not be there.
  FT_HD void backward(i64 row, i64 j, bool zero, bool end) {
    const i64 n = h_.value_width, head = value_head(j);
    const auto& m = m_;
    const DeltaMatrix dstate = part(m.dstate, j);
    e_.load(m.grad, at<const T>(x_.o_grad, row, head * n), x_.o_grad.stride, rows_, n);
    e_.product(m.dd, rows_, n, transposed(m.p), m.grad, rows_, false);
    if (!end) {
      e_.product(m.back, rows_, n, plain(m.k), dstate, h_.key_width, false);
      e_.each(rows_, n, [&](auto part, i64 r, i64 c) {
        part.store(&m.dd(r, c), part.load(&m.dd(r, c)) + part.all(m.rest[r]) * part.load(&m.back(r, c)));
      });
    }
    e_.solve_back(m.a, m.dd, rows_, n);  // the gradient of R
    e_.transpose(m.dt, m.d, rows_, n);
    e_.product(m.dp, rows_, rows_, plain(m.grad), m.dt, n, false);
    e_.product(m.da, rows_, rows_, plain(m.dd), m.dt, n, false);
    inside(row, j, zero);
    through_states(j, zero, end);
    e_.rows(1, [&](i64) {
      float sum = 0;
      for (i64 r = rows_ - 1; r >= 0; --r) *at<float>(x_.dg, row + r, head) = sum += m.dsum[r];
    });
    scale(m.dr, m.dd, rows_, n, [&](i64 r) { return m.beta[r]; });
    e_.store(at<T>(x_.dv, row, head * n), x_.dv.stride, m.dr, rows_, n);
  }

  // Adds the gradients of queries and keys through p and a, which become the gradients of q k^T and k k^T.
  // Begins dsum and dbeta. Uses m.p.
  FT_HD void inside(i64 row, i64 j, bool zero) {
    const i64 n = h_.value_width;
    const auto& m = m_;
    e_.each(rows_, rows_, [&](auto part, i64 r, i64 c) {
      const auto decay = part.load(&m.decay(r, c));
      const auto dp = part.before(part.load(&m.dp(r, c)) * decay, r - c + 1);
      const auto da = part.before(part.all(0) - part.load(&m.da(r, c)) * decay, r - c);
      const auto through_p = dp * part.load(&m.qk(r, c));
      const auto through_a = da * part.all(m.beta[r]) * part.load(&m.kk(r, c));
      part.store(&m.dp(r, c), dp);
      part.store(&m.da(r, c), da);
      part.store(&m.pull(r, c), part.before(through_p + through_a, r - c));
    });
    e_.transpose(m.p, m.pull, rows_, rows_);
    e_.each(1, rows_, [&](auto part, i64, i64 r) {
      auto sum = part.all(0);
      for (i64 c = 0; c < rows_; ++c) sum = sum + (part.load(&m.p(c, r)) - part.load(&m.pull(c, r)));
      part.store(&m.dsum[r], sum);
    });
    e_.rows(rows_, [&](i64 r) {
      float dbeta = e_.dot(m.da.row(r), m.kk.row(r), r) + e_.dot(m.dd.row(r), m.v.row(r), n);
      if (!zero) dbeta -= m.up[r] * e_.dot(m.dd.row(r), m.read.row(r), n);
      *at<float>(x_.dbeta, row + r, value_head(j)) = dbeta;
    });
    scale(m.da, rows_, rows_, [&](i64 r) { return m.beta[r]; });
    const i64 k = h_.key_width;
    e_.product(m.dq, rows_, k, plain(m.dp), m.k, rows_, true);
    e_.product(m.dk, rows_, k, transposed(m.dp), m.q, rows_, true);
    e_.product(m.dk, rows_, k, plain(m.da), m.k, rows_, true);
    e_.product(m.dk, rows_, k, transposed(m.da), m.k, rows_, true);
  }

  // Adds the gradients through the states before and after the chunk; dstate becomes the gradient of the
  // state before it. Scales m.grad and uses m.read, m.dr.
  FT_HD void through_states(i64 j, bool zero, bool end) {
    const i64 n = h_.value_width, k = h_.key_width, last = rows_ - 1;
    const auto& m = m_;
    const DeltaMatrix state = part(m.state, j), dstate = part(m.dstate, j);
    if (!end) {
      const float keep = m.up[last];
      scale(m.read, m.d, rows_, n, [&](i64 r) { return m.rest[r]; });
      add_turned(m.dk, m.read, dstate, m.k, -1);
      e_.rows(k, [&](i64 r) { m.dots[r] = zero ? 0 : e_.dot(state.row(r), dstate.row(r), n); });
      e_.rows(1, [&](i64) {
        float sum = 0;
        for (i64 r = 0; r < k; ++r) sum += m.dots[r];
        sum *= keep;
        for (i64 r = 0; r < rows_; ++r) sum += m.pulls[r];
        m.dsum[last] += sum;
      });
      scale(dstate, k, n, [&](i64) { return keep; });
    }
    if (zero) return;
    scale(m.grad, rows_, n, [&](i64 r) { return m.up[r]; });
    scale(m.dr, m.dd, rows_, n, [&](i64 r) { return -m.beta[r] * m.up[r]; });
    add_turned(m.dq, m.grad, state, m.q, 1);
    add_turned(m.dk, m.dr, state, m.k, 1);
    e_.product(dstate, k, n, transposed(m.q), m.grad, rows_, !end);
    e_.product(dstate, k, n, transposed(m.k), m.dr, rows_, true);
  }
  // y += x state^T, a gradient of rows `with`; dsum += sign times the products of their rows, which stay in
  // pulls.
  FT_HD void add_turned(DeltaMatrix y, DeltaMatrix x, DeltaMatrix state, DeltaMatrix with, float sign) {
    const i64 n = h_.value_width, k = h_.key_width;
    const auto& m = m_;
    e_.transpose(m.turned, state, k, n);
    e_.product(m.t, rows_, k, plain(x), m.turned, n, false);
    e_.each(rows_, k, [&](auto part, i64 r, i64 c) {
      part.store(&y(r, c), part.load(&y(r, c)) + part.load(&m.t(r, c)));
    });
    e_.rows(rows_, [&](i64 r) {
      m.pulls[r] = e_.dot(with.row(r), m.t.row(r), k);
      m.dsum[r] += sign * m.pulls[r];
    });
  }

  // Stores the gradients of queries and keys before their normalisation.
  FT_HD void store_keys(i64 row) {
    const i64 n = h_.key_width, column = head_ * n;
    const float unit = 1 / math::sqrt(static_cast<float>(n));
    const auto& m = m_;
    e_.rows(rows_, [&](i64 r) {
      m.pulls[r] = e_.dot(m.q.row(r), m.dq.row(r), n) / unit;
      m.dsum[r] = e_.dot(m.k.row(r), m.dk.row(r), n);
    });
    e_.each(rows_, n, [&](auto part, i64 r, i64 c) {
      const auto scaled = part.all(unit) * part.load(&m.dq(r, c));
      const auto dq = scaled - part.load(&m.q(r, c)) * part.all(m.pulls[r]);
      const auto dk = part.load(&m.dk(r, c)) - part.load(&m.k(r, c)) * part.all(m.dsum[r]);
      part.store(&m.dq(r, c), part.all(m.q_rstd[r]) * dq);
      part.store(&m.dk(r, c), part.all(m.k_rstd[r]) * dk);
    });
    e_.store(at<T>(x_.dq, row, column), x_.dq.stride, m.dq, rows_, n);
    e_.store(at<T>(x_.dk, row, column), x_.dk.stride, m.dk, rows_, n);
  }

  Executor& e_;
  const DeltaOperands& x_;
  const DeltaHeads& h_;
  const DeltaRoom m_;
  const i64 head_, number_, count_, group_;
  i64 rows_ = 0;
};

}  // namespace ft
