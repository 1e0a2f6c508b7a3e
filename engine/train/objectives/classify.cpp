// Classification and regression with the losses of transformers' *ForSequenceClassification and
// *ForTokenClassification: cross-entropy of one class; binary cross-entropy, or squared error, averaged over
// the labels. A step's loss is the mean over its targets: texts, or tokens with a label.
#include "engine/train/objectives/classify.h"

#include <algorithm>
#include <cmath>

#include "engine/train/objectives/class_measures.h"
#include "engine/train/objectives/config.h"
#include "engine/train/objectives/host_loss.h"
#include "engine/train/objectives/judge.h"
#include "engine/train/objectives/list.h"
#include "engine/train/objectives/objective.h"
#include "engine/train/schedules/list.h"

namespace ft {
namespace {

// -log softmax(z)[label].
double cross_entropy(std::span<const float> z, std::span<const float> label, std::span<double> slopes) {
  const auto right = static_cast<std::size_t>(label[0]);
  const double most = *std::max_element(z.begin(), z.end());
  double sum = 0;
  for (const double x : z) sum += std::exp(x - most);
  for (std::size_t k = 0; k < slopes.size(); ++k)
    slopes[k] = std::exp(static_cast<double>(z[k]) - most) / sum - (k == right ? 1 : 0);
  return std::log(sum) + most - static_cast<double>(z[right]);
}

// The mean over labels of -y log s(z) - (1 - y) log(1 - s(z)).
double binary_cross_entropy(std::span<const float> z, std::span<const float> label,
                            std::span<double> slopes) {
  const auto n = static_cast<double>(z.size());
  double sum = 0;
  for (std::size_t k = 0; k < z.size(); ++k) {
    const double x = z[k], y = label[k];
    sum -= y * log_sigmoid(x) + (1 - y) * log_sigmoid(-x);
    if (!slopes.empty()) slopes[k] = (sigmoid(x) - y) / n;
  }
  return sum / n;
}

// The mean over labels of (z - y)^2.
double squared_error(std::span<const float> z, std::span<const float> label, std::span<double> slopes) {
  const auto n = static_cast<double>(z.size());
  double sum = 0;
  for (std::size_t k = 0; k < z.size(); ++k) {
    const double d = static_cast<double>(z[k]) - static_cast<double>(label[k]);
    sum += d * d;
    if (!slopes.empty()) slopes[k] = 2 * d / n;
  }
  return sum / n;
}

class Classify final : public Objective {
 public:
  explicit Classify(Classes classes)
      : classes_(std::move(classes)), measures_(make_class_measures(classes_)) {}

  std::int64_t count(const BatchShape& s) const override { return s.targets; }
  void forward(const Pass& p, const Batch& b, Tensor loss) override {
    HostLoss of = loss_of(b, loss, 0);
    p.policy.model->forward(p.context, *p.policy.store, b, &of);
  }
  void forward_backward(const Pass& p, const Batch& b, Tensor loss, float scale) override {
    HostLoss of = loss_of(b, loss, scale);
    p.policy.model->forward_backward(p.context, *p.policy.store, b, &of);
  }
  std::vector<std::string> columns() const override { return measures_->columns(); }
  std::vector<double> take_columns() override { return measures_->take(); }
  std::int64_t column_sums() const override { return measures_->sums(); }
  Measures measures(const std::vector<double>& sums) const override { return measures_->of(sums); }

 private:
  HostLoss loss_of(const Batch& b, Tensor loss, float scale) {
    return {loss, scale, [this, &b](Ctx&, std::span<const float> values, std::span<double> slopes) {
              return sum(b, values, slopes);
            }};
  }

  // In a plan there are neither values nor labels.
  double sum(const Batch& b, std::span<const float> values, std::span<double> slopes) {
    const auto K = static_cast<std::size_t>(classes_.size()),
               each = static_cast<std::size_t>(classes_.label_size());
    const auto loss = classes_.problem == ProblemType::single  ? cross_entropy
                      : classes_.problem == ProblemType::multi ? binary_cross_entropy
                                                               : squared_error;
    double all = 0;
    for (std::size_t t = 0; t * each < b.labels.size(); ++t) {
      const auto z = values.subspan(t * K, K);
      const auto label = std::span(b.labels).subspan(t * each, each);
      all += loss(z, label, slopes.empty() ? slopes : slopes.subspan(t * K, K));
      measures_->add(z, label);
    }
    return all;
  }

  Classes classes_;
  std::unique_ptr<ClassMeasures> measures_;
};

void check_classify(const ObjectiveConfig& c, const Refuse& refuse) {
  const Classes all = classes_of(c);
  if (!c.id2label.empty() && c.num_labels && *c.num_labels != std::ssize(c.id2label))
    refuse(str("objective.id2label: has ", c.id2label.size(), " names, and objective.num_labels is ",
               *c.num_labels, "; leave num_labels out"));
  for (std::size_t i = 0; i < c.id2label.size(); ++i)
    if (std::count(c.id2label.begin(), c.id2label.end(), c.id2label[i]) > 1 || c.id2label[i].empty())
      refuse(str("objective.id2label[", i, "]: ", c.id2label[i].empty() ? "is empty" : "is there twice",
                 "; each label has a name of its own"));
  if (all.problem == ProblemType::single && all.size() < 2)
    refuse(
        "objective.num_labels: one class leaves nothing to choose; set objective.problem_type to "
        "regression, or to multi_label_classification for a probability");
  if (all.task == ClassifyTask::token && all.problem != ProblemType::single)
    refuse(str("objective.problem_type: with objective.task_type TOKEN_CLS each token has one class; leave ",
               name_of(all.problem), " out"));
}

std::unique_ptr<Objective> make_classify(const ObjectiveConfig& c, const ObjectiveParts&) {
  return std::make_unique<Classify>(classes_of(c));
}

}  // namespace

Classes classes_of(const ClassifySettings& c) {
  Classes all{.task = c.task_type.value_or(ClassifyTask::sequence), .names = c.id2label};
  const std::int64_t n = c.num_labels.value_or(2);
  if (all.names.empty())
    for (std::int64_t i = 0; i < n; ++i) all.names.push_back(str("LABEL_", i));
  all.problem = c.problem_type.value_or(all.size() == 1 ? ProblemType::regression : ProblemType::single);
  return all;
}

const ObjectiveKind objectives::kClassify{.name = "classify",
                                          .rate = {2e-5, 2e-4, &schedules::kLinear},
                                          .rows = ObjectiveRows::classified,
                                          .scores = true,
                                          .settings = settings_of<ClassifySettings>,
                                          .check = check_classify,
                                          .make = make_classify};

}  // namespace ft
