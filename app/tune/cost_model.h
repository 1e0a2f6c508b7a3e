// What a step will cost in settings that were not tried, learned from those that were:
//
//   log seconds(x) = log sum_j w_j c_j(x) + r(x) + noise
//
// The sum is physics: c_j are known quantities such as FLOPs, micro-steps and bytes sent, their prices
// w_j >= 0 are fitted, and quantities that no trial has told apart keep their prior prices. r is a Gaussian
// process for what physics leaves out. Its kernel adds one term for each setting and one for all of them
// together (Duvenaud et al., Additive Gaussian Processes, 2011), so that what a setting does is learned from
// every trial. The variances are those of the highest marginal likelihood.
#pragma once
#include <vector>

namespace ft {

struct Traits {                  // of a point of the space
  std::vector<double> costs;     // c_j, in seconds at prior prices; >= 0
  std::vector<double> settings;  // one coordinate for each; neighbouring values are about 1 apart
};

struct MeasuredCost {
  Traits traits;
  double seconds = 0;  // above 0
  double noise = 0;    // relative standard error
};

class CostModel {
 public:
  // At least one measurement; all traits have the same lengths.
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
  std::vector<double> prices_;     // of each cost
  std::vector<double> variances_;  // of each setting's term, and of the one for all together
  std::vector<double> factor_;     // (known, known) Cholesky factor of the kernel matrix, lower
  std::vector<double> residuals_;  // (known) log seconds less physics
  std::vector<double> weights_;    // (known) kernel matrix^-1 residuals
};

}  // namespace ft
