// Predicts the time of a step with untried settings from the tried ones:
//
//   log seconds(x) = log sum_j w_j c_j(x) + r(x) + noise
//
// The sum is physics: c_j are known quantities such as FLOPs, micro-steps and bytes sent. Their prices w_j >=
// 0 are fitted; quantities that no trial has separated keep their prior prices. r is a Gaussian process for
// everything else. Its kernel adds one term for each setting and one for all of them together (Duvenaud et
// al., Additive Gaussian Processes, 2011), so that every trial teaches the effect of each setting. The
// variances maximise the marginal likelihood.
#pragma once
#include <vector>

namespace ft {

struct Traits {                  // traits of a point of the space
  std::vector<double> costs;     // c_j, in seconds at prior prices; >= 0
  std::vector<double> settings;  // a coordinate for each; neighbouring values are about 1 apart
};

struct MeasuredCost {
  Traits traits;
  double seconds = 0;  // above 0
  double noise = 0;    // relative standard error
};

class CostModel {
 public:
  // Needs at least one measurement. All traits have the same lengths.
  explicit CostModel(std::vector<MeasuredCost> known);

  struct Guess {
    double log_seconds = 0, deviation = 0;  // mean and standard deviation of the logarithm
  };
  Guess guess(const Traits&) const;

 private:
  double physics(const Traits&) const;
  void fit_prices();
  void fit_variances();
  double fit_residuals();  // returns the log marginal likelihood
  double kernel(const Traits&, const Traits&) const;

  std::vector<MeasuredCost> known_;
  std::vector<double> prices_;     // price of each cost
  std::vector<double> variances_;  // of each setting's term, and of the term for all together
  std::vector<double> factor_;     // (known, known) Cholesky factor of the kernel matrix, lower
  std::vector<double> residuals_;  // (known) log seconds minus physics
  std::vector<double> weights_;    // (known) kernel matrix^-1 residuals
};

}  // namespace ft
