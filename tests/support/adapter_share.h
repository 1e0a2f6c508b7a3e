// LoRA on a Linear whose result is added to the residual, y = x W^T + u B^T + c: the share of the adapter's
// small term u B^T that remains in the rounded y. 1: all of it; 0: as if there were no adapter.
#pragma once
#include <algorithm>
#include <cmath>
#include <vector>

#include "engine/ops/products.h"
#include "tests/support/matrix.h"

namespace ft::test {

class AdapterShare {
 public:
  // Standard deviations of the terms; both products are multiplied by `unit`. In f32 with a unit of 2^-16
  // they are lost in rounding to the same degree as in bf16 with 1. bias: c is a row.
  struct Size {
    double c, adapter;
    DType type = DType::bf16;
    double unit = 1;
    bool bias = false;
  };

  explicit AdapterShare(const Size& size)
      : size_(size),
        y_(kRows, kCols, size.type),
        x_(kRows, kDepth, size.type),
        w_(kCols, kDepth, size.type),
        u_(kRows, kRank, size.type),
        b_(kCols, kRank, size.type),
        c_(size.bias ? 1 : kRows, kCols, size.type),
        one_(1, 1, size.type) {
    const double base = 0.5 * size.unit, adapter = size.adapter * size.unit;
    spread(x_, 1, 1), spread(w_, 2, base / std::sqrt(double(kDepth)));
    spread(u_, 3, 1), spread(b_, 4, adapter / std::sqrt(double(kRank)));
    spread(c_, 5, size.c);
    base_ = times(x_, w_, kDepth), adapter_ = times(u_, b_, kRank);
  }
  // Returns y and its operands, in the order of the tensors of `run`, which may be on a device.
  std::vector<Matrix*> matrices() { return {&y_, &x_, &w_, &u_, &b_, &c_}; }
  template <class Run>
  void run(const std::vector<Tensor>& t, Run products) const {
    const Term terms[] = {{t[1], Trans::no, t[2], Trans::yes}, {t[3], Trans::no, t[4], Trans::yes}};
    products(op::Products{.y = t[0], .terms = terms, .c = size_.bias ? t[5].view({kCols}) : t[5]});
  }

  double of_y() const { return share(y_.values()); }
  // Returns the share with PEFT's order: the Linear's result is rounded, the adapter's too, then their sum,
  // then its sum with the residual. A bias belongs to the Linear.
  double in_pefts_order() {
    const std::vector<double> all = c_.values();
    std::vector<double> values(base_.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double from_c = all[i % all.size()];
      const double linear = rounded(base_[i] + (size_.bias ? from_c : 0));
      const double sum = rounded(linear + rounded(adapter_[i]));
      values[i] = size_.bias ? sum : rounded(sum + from_c);
    }
    return share(values);
  }

 private:
  static constexpr std::int64_t kRows = 256, kCols = 512, kDepth = 64, kRank = 16;

  static void spread(Matrix& m, std::uint64_t seed, double deviation) {
    m.randomize(seed, deviation * std::sqrt(3.0));
  }
  static std::vector<double> times(const Matrix& left, const Matrix& right, std::int64_t depth) {
    const std::vector<double> a = left.values(), t = right.values();
    std::vector<double> sums;
    for (std::int64_t i = 0; i < kRows; ++i)
      for (std::int64_t j = 0; j < kCols; ++j) {
        const double *p = a.data() + i * depth, *q = t.data() + j * depth;
        double sum = 0;
        for (std::int64_t k = 0; k < depth; ++k) sum += p[k] * q[k];
        sums.push_back(sum);
      }
    return sums;
  }
  double rounded(double v) {
    one_.set(0, 0, v);
    return one_.get(0, 0);
  }
  // Returns the slope of y - c - x W^T by u B^T.
  double share(const std::vector<double>& values) const {
    const std::vector<double> all = c_.values();
    double both = 0, squares = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      both += (values[i] - all[i % all.size()] - base_[i]) * adapter_[i];
      squares += adapter_[i] * adapter_[i];
    }
    return both / squares;
  }

  Size size_;
  Matrix y_, x_, w_, u_, b_, c_, one_;
  std::vector<double> base_, adapter_;
};

}  // namespace ft::test
