#include "engine/train/objectives/objective.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "engine/ops/ops.h"
#include "engine/train/objectives/comparing.h"
#include "engine/train/objectives/host_loss.h"

namespace ft {
namespace {

class KeptScores final : public RowLoss {
 public:
  void weigh(Ctx& c, const RowValues& v, Tensor) override { scores = download(c, v.values); }
  std::vector<float> scores;
};

}  // namespace

std::vector<float> scores_of(const Ctx& context, const Policy& scorer, const Batch& batch) {
  Ctx c = context;
  c.train = false;
  KeptScores kept;
  scorer.model->forward(c, *scorer.store, batch, &kept);
  return kept.scores;
}

void sum_over_ranks(Ctx& c, Communicator& comm, std::vector<double>& numbers) {
  for (std::size_t from = 0; from < numbers.size(); from += kSumsAtOnce) {
    Scope scratch(c.scratch);
    const std::span part =
        std::span(numbers).subspan(from, std::min<std::size_t>(kSumsAtOnce, numbers.size() - from));
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

std::unique_ptr<Objective> make_objective(const ObjectiveConfig& c, const ObjectiveParts& parts) {
  const ObjectiveKind& kind = *c.type;
  if (!kind.judge) return kind.make(c, parts);
  return std::make_unique<Comparing>(kind.judge(c), parts.longest, kind.critic ? kind.critic(c) : nullptr);
}

}  // namespace ft
