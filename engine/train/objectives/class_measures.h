// Measures of classification and regression, computed from sums that add up over batches and ranks.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/train/objectives/classify.h"
#include "engine/train/reports/report.h"

namespace ft {

class ClassMeasures {
 public:
  virtual ~ClassMeasures() = default;
  // Adds a target: the head's values, one for each label, and its true label.
  virtual void add(std::span<const float> values, std::span<const float> label) = 0;
  // Returns the sums since the last call.
  std::vector<double> take();
  std::int64_t sums() const { return size_; }
  virtual std::vector<std::string> columns() const = 0;
  // Returns the columns computed from sums() numbers, without columns that have no targets.
  virtual Measures of(const std::vector<double>& sums) const = 0;

 protected:
  explicit ClassMeasures(std::int64_t size) : size_(size), all_(static_cast<std::size_t>(size)) {}
  double& at(std::size_t i) { return all_[i]; }

 private:
  std::int64_t size_;
  std::vector<double> all_;
};

// Makes the measures. One class a target: accuracy, f1_macro (mean over the classes that occur or are
// predicted, as in scikit-learn) and, with two classes, f1 of the second. Several labels: accuracy (all
// labels right), f1_micro and f1_macro (over all labels); a probability of at least one half predicts a
// label. Regression: mse and pearson, means over the labels.
std::unique_ptr<ClassMeasures> make_class_measures(const Classes&);

}  // namespace ft
