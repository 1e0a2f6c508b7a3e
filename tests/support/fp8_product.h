// A product of rows in FP8 with a matrix in FP8 or a dense one, an adapter and a residual: operands, and the
// expected result by the definition of quant/fp8_rows.h, with sums in double. Codes are found by search among
// all 256.
#pragma once
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "engine/ops/products.h"
#include "engine/quant/fp8_rows.h"
#include "tests/support/matrix.h"

namespace ft::test {

// The value of e4m3 that is nearest to v, in double; of two, the one with an even code.
inline double nearest_e4m3(double v) {
  if (std::isnan(v)) return v;
  double best = 0, distance = std::numeric_limits<double>::infinity();
  for (int code = 0; code < 0x7f; ++code) {
    const double value = to_float(e4m3{static_cast<std::uint8_t>(code)}), d = std::fabs(value - std::fabs(v));
    if (d < distance || (d == distance && code % 2 == 0)) best = value, distance = d;
  }
  return std::copysign(best, v);
}

// Deviations from the definition that a test must notice.
enum class Fp8Fault : std::uint8_t {
  none,
  scales_swapped,
  scale_of_next_row,
  no_saturation,
  no_scales,
  no_codes
};

class Fp8Product {
 public:
  struct Size {
    std::int64_t rows, out, in;
    Trans tb;  // yes: y (rows, out) = x W^T; no: y (rows, in) = dy W
    std::int64_t rank = 4;
    bool residual = true;
    bool one_scale = false;  // for the matrix
    std::int64_t pad = 0;
    DType result = DType::bf16;
    bool dense = false;  // the matrix is given in bf16
  };

  explicit Fp8Product(const Size& size, std::uint64_t seed = 1)
      : size_(size),
        y_(size.rows, columns(), size.result, size.pad),
        x_(size.rows, depth(), DType::bf16, size.pad),
        codes_(1, size.out * size.in, DType::u8),
        scales_(1, size.one_scale ? 1 : size.out, DType::f32),
        u_(size.rows, size.rank, DType::bf16, size.pad),
        b_(size.rank, columns(), DType::bf16, size.pad),
        c_(size.rows, columns(), size.result, size.pad),
        w_(size.out, size.in, DType::bf16, size.pad) {
    y_.randomize(seed);
    x_.randomize(seed + 1), u_.randomize(seed + 2, 0.5), b_.randomize(seed + 3, 0.5),
        c_.randomize(seed + 4, 1);
    codes_.randomize_indices(seed + 5, 256);
    for (std::int64_t i = 0; i < codes_.tensor.cols(); ++i)
      if (is_nan({static_cast<std::uint8_t>(codes_.get(0, i))})) codes_.set(0, i, 1);
    for (std::int64_t i = 0; i < scales_.tensor.cols(); ++i)
      scales_.set(0, i,
                  1e-3 * (1 + 4 * double(to_uniform(Random{seed + 6}.at(static_cast<std::uint64_t>(i))[0]))));
    for (std::int64_t r = 0; r < size.rows; ++r)  // rows of different sizes
      for (std::int64_t k = 0; k < depth(); ++k)
        x_.set(r, k, std::ldexp(x_.get(r, k), static_cast<int>(r % 5)));
    w_.randomize(seed + 7);
    if (size.dense) quantize_matrix();
  }

  std::vector<Matrix*> matrices() { return {&y_, &x_, &codes_, &scales_, &u_, &b_, &c_, &w_}; }
  Matrix& x() { return x_; }
  Matrix& y() { return y_; }
  Matrix& codes() { return codes_; }    // (1, out * in)
  Matrix& scales() { return scales_; }  // (1, out), or (1, 1)
  Matrix& dense() { return w_; }        // (out, in); after a change call quantize_matrix()

  // Gives these codes and scales in place of the dense matrix.
  void give_codes() { size_.dense = false; }
  // Finds codes and scales of the dense matrix, by the definition of quant/fp8.h.
  void quantize_matrix() {
    for (std::int64_t r = 0; r < size_.out; ++r) {
      double amax = 0;
      for (std::int64_t k = 0; k < size_.in; ++k) amax = std::max(amax, std::fabs(w_.get(r, k)));
      const float scale = std::max(static_cast<float>(amax) / 448, std::numeric_limits<float>::min());
      scales_.set(0, r, scale);
      for (std::int64_t k = 0; k < size_.in; ++k)
        codes_.set(0, r * size_.in + k, code_of(nearest_e4m3(static_cast<float>(w_.get(r, k)) / scale)));
    }
  }

  // Calls `products` with the op of these tensors, in the order of matrices().
  template <class Run>
  void run(const std::vector<Tensor>& t, Run products) const {
    const auto flat = [](const Tensor& v) { return v.view({v.numel()}); };
    Term base{t[1], Trans::no, {}, size_.tb};
    if (size_.dense)
      base.b = t[7];
    else
      base.fp8 = {size_.one_scale ? kFp8Tensor : kFp8Channels, {size_.out, size_.in}, flat(t[2]), flat(t[3])};
    base.fp8_rows = true;
    const Term terms[] = {base, {t[4], Trans::no, t[5], Trans::no}};
    const std::size_t count = size_.rank > 0 ? 2 : 1;
    products(op::Products{
        .y = t[0], .terms = std::span(terms).first(count), .c = size_.residual ? t[6] : Tensor{}});
  }
  Term base(const std::vector<Tensor>& t) const {
    Term found{};
    run(t, [&](const op::Products& op) { found = op.terms[0]; });
    return found;
  }

  // Returns y as the definition has it, not rounded.
  std::vector<double> expected(Fp8Fault fault = Fp8Fault::none) const {
    const bool forward = size_.tb == Trans::yes;
    std::vector<double> y;
    std::vector<std::vector<double>> q;
    std::vector<double> scales;
    for (std::int64_t i = 0; i < size_.rows; ++i) quantize(i, fault, q.emplace_back(), scales.emplace_back());
    const auto weight = [&](std::int64_t row, std::int64_t col) {
      return double(to_float(e4m3{static_cast<std::uint8_t>(codes_.get(0, row * size_.in + col))}));
    };
    for (std::int64_t i = 0; i < size_.rows; ++i)
      for (std::int64_t j = 0; j < columns(); ++j) {
        double sum = 0, adapter = 0;
        for (std::int64_t k = 0; k < depth(); ++k)
          sum += q[at(i)][at(k)] * (forward ? weight(j, k) : weight(k, j));
        const bool next = fault == Fp8Fault::scale_of_next_row, swap = fault == Fp8Fault::scales_swapped;
        double left = scales[at(next ? (i + 1) % size_.rows : i)], right = forward ? scale(j) : 1;
        if (swap) left = scales[at(j % size_.rows)], right = forward ? scale(i % size_.out) : 1;
        if (fault == Fp8Fault::no_scales) right = forward ? 1 : scale(0);
        for (std::int64_t k = 0; k < size_.rank; ++k) adapter += u_.get(i, k) * b_.get(k, j);
        y.push_back(sum * left * right + adapter + (size_.residual ? c_.get(i, j) : 0));
      }
    return y;
  }
  std::int64_t columns() const { return size_.tb == Trans::yes ? size_.out : size_.in; }
  std::int64_t depth() const { return size_.tb == Trans::yes ? size_.in : size_.out; }

 private:
  static std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }
  static int code_of(double value) {
    int code = 0;
    while (code < 0x7f && to_float(e4m3{static_cast<std::uint8_t>(code)}) != std::fabs(value)) ++code;
    return std::signbit(value) ? code | 0x80 : code;
  }
  double scale(std::int64_t row) const { return scales_.get(0, size_.one_scale ? 0 : row); }

  void quantize(std::int64_t row, Fp8Fault fault, std::vector<double>& q, double& scale_of_row) const {
    std::vector<float> v;
    float amax = 0;
    for (std::int64_t k = 0; k < depth(); ++k) {
      v.push_back(static_cast<float>(x_.get(row, k)));
      if (size_.tb == Trans::no) v.back() *= static_cast<float>(scale(k));
      if (!std::isnan(v.back())) amax = std::max(amax, std::fabs(v.back()));
    }
    if (fault == Fp8Fault::no_saturation) amax /= 4;
    const float s = std::max(amax / 448, std::numeric_limits<float>::min());
    const float inverse = 1 / s;
    for (const float e : v) {
      const float scaled = e * inverse;
      q.push_back(fault == Fp8Fault::no_codes        ? scaled
                  : fault == Fp8Fault::no_saturation ? std::fmod(nearest_e4m3(scaled), 448)
                                                     : nearest_e4m3(scaled));
    }
    scale_of_row = s;
  }

  Size size_;
  Matrix y_, x_, codes_, scales_, u_, b_, c_, w_;
};

}  // namespace ft::test
