#include "app/tune/cost_model.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace ft {
namespace {

// Solves L x = b, or with `transposed` L' x = b, in place. L is (n, n), lower triangular.
void solve(const std::vector<double>& l, std::vector<double>& x, bool transposed) {
  const std::size_t n = x.size();
  for (std::size_t step = 0; step < n; ++step) {
    const std::size_t i = transposed ? n - 1 - step : step;
    for (std::size_t j = transposed ? i + 1 : 0; j < (transposed ? n : i); ++j)
      x[i] -= (transposed ? l[j * n + i] : l[i * n + j]) * x[j];
    x[i] /= l[i * n + i];
  }
}

// Computes the Cholesky factor of a, in place. The noise on the diagonal keeps a positive definite.
void factorize(std::vector<double>& a, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j <= i; ++j) {
      double sum = a[i * n + j];
      for (std::size_t k = 0; k < j; ++k) sum -= a[i * n + k] * a[j * n + k];
      a[i * n + j] = i == j ? std::sqrt(std::max(sum, 1e-12)) : sum / a[j * n + j];
    }
}

}  // namespace

CostModel::CostModel(std::vector<MeasuredCost> known) : known_(std::move(known)) {
  fit_prices();
  fit_variances();
}

double CostModel::physics(const Traits& t) const {
  return std::log(std::inner_product(t.costs.begin(), t.costs.end(), prices_.begin(), 1e-12));
}

// Fits the prices, relative to the prior prices times a common scale: least squares of the relative errors.
// Each price is drawn to 1 as if by a measurement in which its cost's part is kPrior. Coordinate descent
// keeps prices from going below 0.
void CostModel::fit_prices() {
  constexpr double kPrior = 0.1;
  constexpr int kSweeps = 100;
  const std::size_t costs = known_[0].traits.costs.size();
  const auto n = static_cast<double>(known_.size());
  prices_.assign(costs, 1);
  double scale = 0;
  for (const MeasuredCost& m : known_) scale += (std::log(m.seconds) - physics(m.traits)) / n;
  scale = std::exp(scale);
  const auto share = [&](const MeasuredCost& m, std::size_t j) {
    return scale * m.traits.costs[j] / m.seconds;
  };
  for (int sweep = 0; sweep < kSweeps; ++sweep)
    for (std::size_t j = 0; j < costs; ++j) {
      double above = kPrior * kPrior, below = kPrior * kPrior;
      for (const MeasuredCost& m : known_) {
        double rest = 1;
        for (std::size_t i = 0; i < costs; ++i)
          if (i != j) rest -= prices_[i] * share(m, i);
        above += share(m, j) * rest;
        below += share(m, j) * share(m, j);
      }
      prices_[j] = std::max(0.0, above / below);
    }
  for (double& p : prices_) p *= scale;
}

double CostModel::kernel(const Traits& a, const Traits& b) const {
  double sum = 0, distance = 0;
  for (std::size_t d = 0; d < a.settings.size(); ++d) {
    const double apart = std::abs(a.settings[d] - b.settings[d]);
    sum += variances_[d] * std::exp(-apart);
    distance += apart;
  }
  return sum + variances_.back() * std::exp(-distance);
}

double CostModel::fit_residuals() {
  const std::size_t n = known_.size();
  factor_.assign(n * n, 0);
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j <= i; ++j)
      factor_[i * n + j] =
          kernel(known_[i].traits, known_[j].traits) + (i == j ? known_[i].noise * known_[i].noise : 0);
  factorize(factor_, n);
  weights_ = residuals_;
  solve(factor_, weights_, false);
  double likelihood = 0;
  for (std::size_t i = 0; i < n; ++i)
    likelihood -= 0.5 * weights_[i] * weights_[i] + std::log(factor_[i * n + i]);
  solve(factor_, weights_, true);
  return likelihood;
}

// Fits the variances by coordinate ascent over a few values. Each starts in the middle and changes only for a
// sufficient gain, so that effects which trials have not separated stay uncertain.
void CostModel::fit_variances() {
  constexpr double kDeviations[] = {0.02, 0.05, 0.15, 0.4};
  constexpr double kWorth = 1;
  constexpr int kSweeps = 2;
  for (const MeasuredCost& m : known_) residuals_.push_back(std::log(m.seconds) - physics(m.traits));
  variances_.assign(known_[0].traits.settings.size() + 1, kDeviations[2] * kDeviations[2]);
  variances_.back() = kDeviations[1] * kDeviations[1];
  double best = fit_residuals();
  for (int sweep = 0; sweep < kSweeps; ++sweep)
    for (double& v : variances_) {
      double chosen = v;
      for (const double deviation : kDeviations) {
        v = deviation * deviation;
        if (const double l = fit_residuals(); l > best + kWorth) best = l, chosen = v;
      }
      v = chosen;
    }
  fit_residuals();
}

CostModel::Guess CostModel::guess(const Traits& t) const {
  std::vector<double> k;
  for (const MeasuredCost& m : known_) k.push_back(kernel(m.traits, t));
  const double residual = std::inner_product(k.begin(), k.end(), weights_.begin(), 0.0);
  solve(factor_, k, false);
  const double explained = std::inner_product(k.begin(), k.end(), k.begin(), 0.0);
  return {physics(t) + residual, std::sqrt(std::max(0.0, kernel(t, t) - explained))};
}

}  // namespace ft
