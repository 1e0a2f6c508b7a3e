#include "engine/train/objectives/class_measures.h"

#include <algorithm>
#include <cmath>

namespace ft {

std::vector<double> ClassMeasures::take() {
  std::vector<double> taken(static_cast<std::size_t>(size_));
  std::swap(taken, all_);
  return taken;
}

namespace {

// Sums of a class: targets that have it and are predicted to have it, that are predicted to have it, and that
// have it.
struct ClassSums {
  double hits, predicted, actual;
  bool occurs() const { return predicted + actual > 0; }
  double f1() const { return occurs() ? 2 * hits / (predicted + actual) : 0; }
};

// Counts targets and right predictions, and each label's ClassSums.
class Counted : public ClassMeasures {
 public:
  explicit Counted(std::int64_t labels) : ClassMeasures(kFirst + 3 * labels), labels_(labels) {}

 protected:
  static constexpr std::size_t kFirst = 2;

  void add_target(bool right) {
    at(0) += 1;
    at(1) += right ? 1 : 0;
  }
  void add_label(std::size_t label, bool predicted, bool actual) {
    at(kFirst + 3 * label) += predicted && actual ? 1 : 0;
    at(kFirst + 3 * label + 1) += predicted ? 1 : 0;
    at(kFirst + 3 * label + 2) += actual ? 1 : 0;
  }
  std::vector<ClassSums> labels(const std::vector<double>& sums) const {
    std::vector<ClassSums> all;
    for (std::size_t i = kFirst; i + 2 < sums.size(); i += 3)
      all.push_back({sums[i], sums[i + 1], sums[i + 2]});
    return all;
  }

  std::int64_t labels_;
};

double mean_f1(const std::vector<ClassSums>& labels) {
  double sum = 0;
  for (const ClassSums& l : labels) sum += l.f1();
  return labels.empty() ? 0 : sum / static_cast<double>(labels.size());
}

class OneClass final : public Counted {
 public:
  using Counted::Counted;
  void add(std::span<const float> values, std::span<const float> label) override {
    const auto best =
                   static_cast<std::size_t>(std::max_element(values.begin(), values.end()) - values.begin()),
               right = static_cast<std::size_t>(label[0]);
    add_target(best == right);
    add_label(right, best == right, true);
    if (best != right) add_label(best, true, false);
  }
  std::vector<std::string> columns() const override {
    return labels_ == 2 ? std::vector<std::string>{"accuracy", "f1_macro", "f1"}
                        : std::vector<std::string>{"accuracy", "f1_macro"};
  }
  Measures of(const std::vector<double>& sums) const override {
    if (sums.empty() || sums[0] == 0) return {};
    std::vector<ClassSums> all = labels(sums);
    Measures m{{"accuracy", sums[1] / sums[0]}, {"f1_macro", 0}};
    if (labels_ == 2) m.emplace_back("f1", all[1].f1());
    std::erase_if(all, [](const ClassSums& c) { return !c.occurs(); });
    m[1].second = mean_f1(all);
    return m;
  }
};

class SeveralLabels final : public Counted {
 public:
  using Counted::Counted;
  void add(std::span<const float> values, std::span<const float> label) override {
    bool right = true;
    for (std::size_t k = 0; k < values.size(); ++k) {
      const bool predicted = values[k] >= 0, actual = label[k] >= 0.5f;
      add_label(k, predicted, actual);
      right = right && predicted == actual;
    }
    add_target(right);
  }
  std::vector<std::string> columns() const override { return {"accuracy", "f1_micro", "f1_macro"}; }
  Measures of(const std::vector<double>& sums) const override {
    if (sums.empty() || sums[0] == 0) return {};
    const std::vector<ClassSums> all = labels(sums);
    ClassSums together{};
    for (const ClassSums& l : all) {
      together.hits += l.hits;
      together.predicted += l.predicted;
      together.actual += l.actual;
    }
    return {{"accuracy", sums[1] / sums[0]}, {"f1_micro", together.f1()}, {"f1_macro", mean_f1(all)}};
  }
};

// Sums of each label: n, x, y, x^2, y^2, xy, (x - y)^2 of predictions x and labels y.
class Numbers final : public ClassMeasures {
 public:
  explicit Numbers(std::int64_t labels) : ClassMeasures(kEach * labels) {}
  void add(std::span<const float> values, std::span<const float> label) override {
    for (std::size_t k = 0; k < values.size(); ++k) {
      const double x = values[k], y = label[k], all[] = {1, x, y, x * x, y * y, x * y, (x - y) * (x - y)};
      for (std::size_t i = 0; i < kEach; ++i) at(kEach * k + i) += all[i];
    }
  }
  std::vector<std::string> columns() const override { return {"mse", "pearson"}; }
  Measures of(const std::vector<double>& sums) const override {
    if (sums.empty() || sums[0] == 0) return {};
    double mse = 0, pearson = 0;
    std::size_t labels = 0, varied = 0;
    for (std::size_t i = 0; i + kEach <= sums.size(); i += kEach, ++labels) {
      const double n = sums[i], x = sums[i + 1] / n, y = sums[i + 2] / n;
      mse += sums[i + 6] / n;
      const double xx = sums[i + 3] / n - x * x, yy = sums[i + 4] / n - y * y;
      if (xx <= kRounding * x * x || yy <= kRounding * y * y) continue;
      pearson += (sums[i + 5] / n - x * y) / std::sqrt(xx * yy);
      ++varied;
    }
    Measures m{{"mse", mse / static_cast<double>(labels)}};
    if (varied == labels) m.emplace_back("pearson", pearson / static_cast<double>(labels));
    return m;
  }

 private:
  static constexpr std::size_t kEach = 7;
  static constexpr double kRounding = 1e-12;  // variances below this part of the mean's square are 0
};

}  // namespace

std::unique_ptr<ClassMeasures> make_class_measures(const Classes& c) {
  if (c.problem == ProblemType::regression) return std::make_unique<Numbers>(c.size());
  if (c.problem == ProblemType::multi) return std::make_unique<SeveralLabels>(c.size());
  return std::make_unique<OneClass>(c.size());
}

}  // namespace ft
