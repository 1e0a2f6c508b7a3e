#include "lora/starts/decompose.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "engine/core/require.h"
#include "engine/files/parallel.h"

namespace ft::lora {
namespace {

constexpr std::int64_t kSmall = 192;  // longest shorter side for which Jacobi rotations are used

double dot(const double* a, const double* b, std::int64_t n) {
  double s[4] = {};
  std::int64_t i = 0;
  for (; i + 4 <= n; i += 4)
    for (int j = 0; j < 4; ++j) s[j] += a[i + j] * b[i + j];
  for (; i < n; ++i) s[0] += a[i] * b[i];
  return (s[0] + s[1]) + (s[2] + s[3]);
}
double dot(const float* a, const double* b, std::int64_t n) {
  double s[4] = {};
  std::int64_t i = 0;
  for (; i + 4 <= n; i += 4)
    for (int j = 0; j < 4; ++j) s[j] += static_cast<double>(a[i + j]) * b[i + j];
  for (; i < n; ++i) s[0] += static_cast<double>(a[i]) * b[i];
  return (s[0] + s[1]) + (s[2] + s[3]);
}
// y += f x
void add(double* y, double f, const double* x, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) y[i] += f * x[i];
}
void scale(double* x, double f, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) x[i] *= f;
}

// y (rows) = W x
void times(MatrixView w, const double* x, double* y) {
  constexpr std::int64_t kRows = 64;
  in_parallel((w.rows + kRows - 1) / kRows, [&](std::int64_t block) {
    for (std::int64_t r = block * kRows; r < std::min(w.rows, (block + 1) * kRows); ++r)
      y[r] = dot(w.at + r * w.cols, x, w.cols);
  });
}
// y (cols) = W^T x
void transposed_times(MatrixView w, const double* x, double* y) {
  constexpr std::int64_t kCols = 512;
  in_parallel((w.cols + kCols - 1) / kCols, [&](std::int64_t block) {
    const std::int64_t first = block * kCols, n = std::min(kCols, w.cols - first);
    std::fill_n(y + first, n, 0.0);
    for (std::int64_t r = 0; r < w.rows; ++r) {
      const float* row = w.at + r * w.cols + first;
      for (std::int64_t i = 0; i < n; ++i) y[first + i] += x[r] * static_cast<double>(row[i]);
    }
  });
}

// Makes x orthogonal to the first `count` vectors; twice, because rounding leaves a remainder. Returns x's
// new length.
double take_out(const Vectors& from, std::int64_t count, double* x) {
  for (int round = 0; round < 2; ++round)
    for (std::int64_t i = 0; i < count; ++i) add(x, -dot(from[i], x, from.length), from[i], from.length);
  return std::sqrt(dot(x, x, from.length));
}

// Makes x a random unit vector that is orthogonal to the first `count` vectors.
void draw(const Vectors& from, std::int64_t count, double* x) {
  Random random = Random{0x6c6f7261}.with(static_cast<std::uint64_t>(count));
  for (double length = 0; length < 1e-3; random = random.with("again")) {
    for (std::int64_t i = 0; i < from.length; ++i) x[i] = normal_at(random, static_cast<std::uint64_t>(i));
    scale(x, 1 / std::sqrt(dot(x, x, from.length)), from.length);
    length = take_out(from, count, x);
    if (length >= 1e-3) scale(x, 1 / length, from.length);
  }
}

// Rotates columns p and q of w so that they become orthogonal, and columns p and q of v by the same angle.
// Returns false if the columns of w are orthogonal already.
bool rotate(Vectors& w, Vectors& v, std::int64_t p, std::int64_t q) {
  const double a = dot(w[p], w[p], w.length), b = dot(w[q], w[q], w.length), c = dot(w[p], w[q], w.length);
  if (std::abs(c) <= 1e-15 * std::sqrt(a * b)) return false;
  const double tau = (b - a) / (2 * c), t = (tau >= 0 ? 1 : -1) / (std::abs(tau) + std::sqrt(1 + tau * tau));
  const double cosine = 1 / std::sqrt(1 + t * t), sine = cosine * t;
  const auto turn = [&](double* x, double* y, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) {
      const double old = x[i];
      x[i] = cosine * old - sine * y[i];
      y[i] = sine * old + cosine * y[i];
    }
  };
  turn(w[p], w[q], w.length);
  turn(v[p], v[q], v.length);
  return true;
}

// Returns all singular values and vectors of a matrix, given its columns. There must not be more columns than
// rows.
Singular by_rotations(Vectors w) {
  const std::int64_t n = w.count;
  Vectors v(n, n);
  for (std::int64_t i = 0; i < n; ++i) v[i][i] = 1;
  bool turned = true;
  for (int sweep = 0; turned && sweep < 60; ++sweep) {
    turned = false;
    for (std::int64_t p = 0; p < n; ++p)
      for (std::int64_t q = p + 1; q < n; ++q) turned |= rotate(w, v, p, q);
  }
  std::vector<double> lengths(static_cast<std::size_t>(n));
  std::vector<std::int64_t> order(lengths.size());
  std::iota(order.begin(), order.end(), 0);
  for (const auto i : order) lengths[static_cast<std::size_t>(i)] = std::sqrt(dot(w[i], w[i], w.length));
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) {
    return lengths[static_cast<std::size_t>(a)] > lengths[static_cast<std::size_t>(b)];
  });
  Singular s{Vectors(w.length, n), Vectors(n, n), {}};
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t from = order[static_cast<std::size_t>(i)];
    const double length = lengths[static_cast<std::size_t>(from)];
    s.values.push_back(length);
    std::copy_n(v[from], n, s.right[i]);
    if (length > 0) add(s.left[i], 1 / length, w[from], w.length);
  }
  return s;
}

Singular first_of(const Singular& all, std::int64_t rank) {
  Singular s{Vectors(all.left.length, rank), Vectors(all.right.length, rank), {}};
  std::copy_n(all.left.values.begin(), s.left.values.size(), s.left.values.begin());
  std::copy_n(all.right.values.begin(), s.right.values.size(), s.right.values.begin());
  s.values.assign(all.values.begin(), all.values.begin() + rank);
  return s;
}

Singular of_small(MatrixView w, std::int64_t rank) {
  const bool tall = w.rows >= w.cols;
  Vectors columns(std::max(w.rows, w.cols), std::min(w.rows, w.cols));
  for (std::int64_t r = 0; r < w.rows; ++r)
    for (std::int64_t c = 0; c < w.cols; ++c)
      (tall ? columns[c][r] : columns[r][c]) = static_cast<double>(w.at[r * w.cols + c]);
  Singular s = first_of(by_rotations(std::move(columns)), rank);
  if (!tall) std::swap(s.left, s.right);
  return s;
}

// sum over i of weights[i] from[i], for each of the first `count` vectors of weights.
Vectors combine(const Vectors& from, const Vectors& weights, std::int64_t count) {
  Vectors y(from.length, count);
  in_parallel(count, [&](std::int64_t i) {
    for (std::int64_t k = 0; k < weights.length; ++k) add(y[i], weights[i][k], from[k], from.length);
  });
  return y;
}

// W V = U B with B upper bidiagonal, extended by a column at a time.
struct Bidiagonal {
  Vectors left, right;
  std::vector<double> diagonal, above;  // above[k]: between columns k and k + 1
  std::int64_t count = 0;

  Bidiagonal(MatrixView w, std::int64_t most) : left(w.rows, most), right(w.cols, most) {
    draw(right, 0, right[0]);
  }
  void grow(MatrixView w, double tiny) {
    const std::int64_t k = count++;
    times(w, right[k], left[k]);
    if (k > 0) add(left[k], -above.back(), left[k - 1], w.rows);
    const double length = take_out(left, k, left[k]);
    diagonal.push_back(length > tiny ? length : 0);
    if (length > tiny)
      scale(left[k], 1 / length, w.rows);
    else
      draw(left, k, left[k]);
    if (count == right.count) return above.push_back(0);
    transposed_times(w, left[k], right[k + 1]);
    add(right[k + 1], -diagonal.back(), right[k], w.cols);
    const double next = take_out(right, count, right[k + 1]);
    above.push_back(next > tiny ? next : 0);
    if (next > tiny)
      scale(right[k + 1], 1 / next, w.cols);
    else
      draw(right, count, right[k + 1]);
  }
  Singular small() const {
    Vectors columns(count, count);
    for (std::int64_t k = 0; k < count; ++k) {
      columns[k][k] = diagonal[static_cast<std::size_t>(k)];
      if (k > 0) columns[k][k - 1] = above[static_cast<std::size_t>(k - 1)];
    }
    return by_rotations(std::move(columns));
  }
};

// Accurate to `tolerance` of the largest value.
Singular of_large(MatrixView w, std::int64_t rank, double tolerance) {
  const std::int64_t most = std::min(w.rows, w.cols);
  double squares = 0;
  for (std::int64_t i = 0; i < w.rows * w.cols; ++i) squares += static_cast<double>(w.at[i]) * w.at[i];
  const double tiny = 1e-14 * std::sqrt(squares);
  Bidiagonal b(w, most);
  for (std::int64_t next = std::min(most, 2 * rank + 32);; next = std::min(most, next + next / 2)) {
    while (b.count < next) b.grow(w, tiny);
    const Singular small = b.small();
    double wrong = 0;  // upper bound of the error of a vector times its value
    for (std::int64_t i = 0; i < rank; ++i)
      wrong = std::max(wrong, std::abs(b.above.back() * small.left[i][b.count - 1]));
    if (b.count < most && wrong > tolerance * small.values[0]) continue;
    Singular s = first_of(small, rank);
    b.left.count = b.right.count = b.count;
    return {combine(b.left, s.left, rank), combine(b.right, s.right, rank), std::move(s.values)};
  }
}

}  // namespace

double normal_at(Random random, std::uint64_t index) {
  const auto bits = random.at(index);
  return std::sqrt(-2 * std::log(static_cast<double>(to_uniform(bits[0])))) *
         std::cos(2 * std::numbers::pi * static_cast<double>(to_uniform(bits[1])));
}

double uniform_at(Random random, std::uint64_t index) {
  return 2 * static_cast<double>(to_uniform(random.at(index)[0])) - 1;
}

void orthonormalize(Vectors& x) {
  for (std::int64_t i = 0; i < x.count; ++i) {
    const double before = std::sqrt(dot(x[i], x[i], x.length)), length = take_out(x, i, x[i]);
    if (length > 1e-14 * before)
      scale(x[i], 1 / length, x.length);
    else  // a combination of earlier vectors, or zero
      draw(x, i, x[i]);
  }
}

Vectors first_of_q(MatrixView w, std::int64_t count) {
  require(count <= std::min(w.rows, w.cols), "more columns than Q has");
  Vectors q(w.rows, count);
  for (std::int64_t r = 0; r < w.rows; ++r)
    for (std::int64_t c = 0; c < count; ++c) q[c][r] = static_cast<double>(w.at[r * w.cols + c]);
  orthonormalize(q);
  return q;
}

Vectors rows_times(MatrixView w, const Vectors& weights) {
  Vectors y(w.cols, weights.count);
  for (std::int64_t i = 0; i < weights.count; ++i) transposed_times(w, weights[i], y[i]);
  return y;
}

Singular largest_singular(MatrixView w, std::int64_t rank) {
  require(rank <= std::min(w.rows, w.cols), "more singular values than a matrix has");
  return std::min(w.rows, w.cols) <= kSmall ? of_small(w, rank) : of_large(w, rank, 1e-12);
}

Singular leading_singular(MatrixView w, std::int64_t rank) {
  require(rank <= std::min(w.rows, w.cols), "more singular values than a matrix has");
  return of_large(w, rank, 1e-9);
}

Singular likely_singular(MatrixView w, std::int64_t rank, std::int64_t iterations, Random random) {
  require(rank <= std::min(w.rows, w.cols), "more singular values than a matrix has");
  Vectors right(w.cols, rank), left(w.rows, rank);
  for (std::size_t i = 0; i < right.values.size(); ++i) right.values[i] = normal_at(random, i);
  for (std::int64_t pass = 0; pass <= iterations; ++pass) {
    if (pass > 0) {
      right = rows_times(w, left);
      orthonormalize(right);
    }
    for (std::int64_t i = 0; i < rank; ++i) times(w, right[i], left[i]);
    orthonormalize(left);
  }
  const Singular s = by_rotations(rows_times(w, left));  // of W^T left
  return {combine(left, s.right, rank), s.left, s.values};
}

}  // namespace ft::lora
