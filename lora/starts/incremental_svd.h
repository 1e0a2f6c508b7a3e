// The principal components of rows that come in batches (Ross et al. 2008), as in scikit-learn's and PEFT's
// IncrementalPCA. Each batch X is decomposed together with the result of the earlier batches,
//   [S V; X - mean of X; sqrt(n m / (n + m)) (mean before - mean of X)]
// with n rows before and m rows of X. Sums are in double. The largest element of a component is positive.
#pragma once
#include "lora/starts/decompose.h"

namespace ft::lora {

class IncrementalSvd {
 public:
  // components: at most the columns of a row.
  explicit IncrementalSvd(std::int64_t components) : count_(components) {}

  // Adds a batch, which must have at least as many rows as there are components.
  void add(MatrixView rows);

  std::int64_t count() const { return count_; }
  bool begun() const { return rows_ > 0; }
  const Vectors& components() const { return components_; }  // by explained variance, descending
  const std::vector<double>& values() const { return values_; }
  // (count) the fraction of the rows' variance that each component explains.
  std::vector<double> explained() const;
  // (count) the cosine between each component and its direction before the last batch; 0 after the first.
  const std::vector<double>& similarity() const { return similarity_; }

 private:
  std::int64_t count_, rows_ = 0;
  std::vector<double> mean_;
  double variance_ = 0;  // the sum of all columns' squared distances from their means
  Vectors components_;
  std::vector<double> values_, similarity_;
};

}  // namespace ft::lora
