#include "engine/train/objectives/objective.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "engine/ops/ops.h"
#include "engine/train/objectives/comparing.h"

namespace ft {
namespace {

class Supervised final : public Objective {
 public:
  explicit Supervised(double smoothing) : smoothing_(static_cast<float>(smoothing)) {}
  bool is_cross_entropy() const override { return true; }
  std::int64_t count(const BatchShape& s) const override { return s.targets; }
  void forward(const Pass& p, const Batch& b, Tensor loss) override {
    p.policy.model->forward(p.context, *p.policy.store, b, CrossEntropy{loss});
  }
  void forward_backward(const Pass& p, const Batch& b, Tensor loss, float scale) override {
    p.policy.model->forward_backward(p.context, *p.policy.store, b, CrossEntropy{loss, scale, smoothing_});
  }

 private:
  float smoothing_;
};

class KeptScores final : public RowLoss {
 public:
  void weigh(Ctx& c, const RowValues& v, Tensor) override {
    scores.resize(static_cast<std::size_t>(v.values.numel()));
    if (!scores.empty()) c.ops.download(scores.data(), v.values);
  }
  std::vector<float> scores;
};

std::unique_ptr<Judge> make_judge(const ObjectiveConfig& c) {
  switch (c.type) {
    case ObjectiveType::dpo:
      return make_dpo(c);
    case ObjectiveType::kto:
      return make_kto(c);
    case ObjectiveType::orpo:
      return make_orpo(c);
    case ObjectiveType::reward:
      return make_reward(c);
    case ObjectiveType::grpo:
      return make_grpo(c);
    case ObjectiveType::ppo:
      return make_ppo(c);
    default:
      return make_cpo(c);
  }
}

}  // namespace

std::vector<float> scores_of(const Ctx& context, const Policy& scorer, const Batch& batch) {
  Ctx c = context;
  c.train = false;
  KeptScores kept;
  scorer.model->forward(c, *scorer.store, batch, &kept);
  return kept.scores;
}

void sum_over_ranks(Ctx& c, Communicator& comm, std::vector<double>& numbers) {
  constexpr std::size_t kAtOnce = 512;
  for (std::size_t from = 0; from < numbers.size(); from += kAtOnce) {
    Scope scratch(c.scratch);
    const std::span part = std::span(numbers).subspan(from, std::min(kAtOnce, numbers.size() - from));
    Tensor all = c.scratch.take({std::ssize(part)}, DType::f64);
    c.ops.upload(all, part.data());
    comm.all_reduce(all);
    c.ops.download(part.data(), all);
  }
}

void ColumnMeans::add(const std::vector<double>& values) {
  sums_.resize(2 * values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (std::isnan(values[i])) continue;
    sums_[2 * i] += values[i];
    sums_[2 * i + 1] += 1;
  }
}

std::vector<double> ColumnMeans::take() { return std::exchange(sums_, {}); }

Measures ColumnMeans::means(const std::vector<std::string>& columns, const std::vector<double>& sums) {
  Measures all;
  for (std::size_t i = 0; i < columns.size() && 2 * i + 1 < sums.size(); ++i)
    if (sums[2 * i + 1] > 0) all.emplace_back(columns[i], sums[2 * i] / sums[2 * i + 1]);
  return all;
}

std::unique_ptr<Objective> make_supervised(double label_smoothing) {
  return std::make_unique<Supervised>(label_smoothing);
}

std::unique_ptr<Objective> make_objective(const ObjectiveConfig& c, double label_smoothing,
                                          std::int64_t longest, std::shared_ptr<const TeacherFile> taught) {
  if (c.distills()) return make_distill(c, std::move(taught));
  if (!c.compares()) return make_supervised(label_smoothing);
  auto critic = c.type == ObjectiveType::ppo ? make_critic(c) : nullptr;
  return std::make_unique<Comparing>(make_judge(c), longest, std::move(critic));
}

}  // namespace ft
