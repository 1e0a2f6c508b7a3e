#include "lora/starts/incremental_svd.h"

#include <algorithm>
#include <cmath>

#include "engine/core/require.h"

namespace ft::lora {
namespace {

std::vector<double> mean_of(MatrixView x) {
  std::vector<double> mean(static_cast<std::size_t>(x.cols));
  for (std::int64_t r = 0; r < x.rows; ++r)
    for (std::int64_t c = 0; c < x.cols; ++c) mean[static_cast<std::size_t>(c)] += x.at[r * x.cols + c];
  for (double& m : mean) m /= static_cast<double>(x.rows);
  return mean;
}

// Turns a component, whose sign is arbitrary, so that its largest element is positive.
void turn(double* x, std::int64_t n) {
  const double largest =
      *std::max_element(x, x + n, [](double a, double b) { return std::abs(a) < std::abs(b); });
  if (largest < 0) std::for_each(x, x + n, [](double& v) { v = -v; });
}

double cosine(const double* a, const double* b, std::int64_t n) {
  double ab = 0, aa = 0, bb = 0;
  for (std::int64_t i = 0; i < n; ++i) ab += a[i] * b[i], aa += a[i] * a[i], bb += b[i] * b[i];
  return ab / std::max(std::sqrt(aa * bb), 1e-8);
}

}  // namespace

void IncrementalSvd::add(MatrixView x) {
  require(x.rows >= count_ && x.cols >= count_, "fewer rows or columns than components");
  const std::int64_t n = x.cols;
  const double before = static_cast<double>(rows_), now = static_cast<double>(x.rows), all = before + now;
  const std::vector<double> mean = mean_of(x);
  std::vector<float> stacked;
  stacked.reserve(static_cast<std::size_t>((x.rows + count_ + 1) * n));
  for (std::int64_t k = 0; begun() && k < count_; ++k)
    for (std::int64_t c = 0; c < n; ++c)
      stacked.push_back(static_cast<float>(values_[static_cast<std::size_t>(k)] * components_[k][c]));
  for (std::int64_t r = 0; r < x.rows; ++r)
    for (std::int64_t c = 0; c < n; ++c) {
      const double away = static_cast<double>(x.at[r * n + c]) - mean[static_cast<std::size_t>(c)];
      variance_ += away * away;
      stacked.push_back(static_cast<float>(away));
    }
  for (std::size_t c = 0; begun() && c < mean.size(); ++c) {
    const double shift = std::sqrt(before / all * now) * (mean_[c] - mean[c]);
    variance_ += shift * shift;
    stacked.push_back(static_cast<float>(shift));
  }
  const Vectors old = std::move(components_);
  const auto rows = static_cast<std::int64_t>(stacked.size()) / n;
  Singular s = leading_singular({stacked.data(), rows, n}, count_);
  similarity_.assign(static_cast<std::size_t>(count_), 0);
  for (std::int64_t k = 0; k < count_; ++k) {
    turn(s.right[k], n);
    if (begun()) similarity_[static_cast<std::size_t>(k)] = cosine(s.right[k], old[k], n);
  }
  components_ = std::move(s.right);
  values_ = std::move(s.values);
  mean_.resize(mean.size());
  for (std::size_t c = 0; c < mean.size(); ++c) mean_[c] = (before * mean_[c] + now * mean[c]) / all;
  rows_ += x.rows;
}

std::vector<double> IncrementalSvd::explained() const {
  std::vector<double> shares;
  for (const double v : values_) shares.push_back(variance_ > 0 ? v * v / variance_ : 0);
  return shares;
}

}  // namespace ft::lora
