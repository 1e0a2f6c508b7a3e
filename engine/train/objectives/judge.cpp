#include "engine/train/objectives/judge.h"

#include <numeric>

namespace ft {
namespace {

double mean(std::span<const double> all) {
  return std::accumulate(all.begin(), all.end(), 0.0) / static_cast<double>(all.size());
}

}  // namespace

void add_pair_columns(Verdict& v, double beta, std::span<const double> chosen,
                      std::span<const double> rejected, std::span<const double> chosen_logps,
                      std::span<const double> rejected_logps) {
  double right = 0;
  for (std::size_t i = 0; i < chosen.size(); ++i) right += chosen[i] > rejected[i];
  const double c = beta * mean(chosen), r = beta * mean(rejected);
  v.columns.insert(v.columns.end(), {c, r, c - r, right / static_cast<double>(chosen.size()),
                                     mean(chosen_logps), mean(rejected_logps)});
  v.counts.insert(v.counts.end(), kPairColumns.size(), static_cast<double>(chosen.size()));
}

AnswerStatistics::AnswerStatistics(const Answers& a, const std::function<bool(std::size_t)>& chosen) {
  for (std::size_t s = 0; s < a.sequences(); ++s) {
    const Answers::Range r = a.answer(s);
    const int which = chosen(s) ? 0 : 1;
    count[which] += r.count();
    for (std::size_t t = r.begin; t < r.end; ++t) {
      entropy_[which] += a.statistic(t, 0);
      logits_[which] += a.statistic(t, 1);
      right_[which] += a.statistic(t, 2);
    }
  }
}

double add_cross_entropy(Verdict& v, const Answers& a, std::span<const Answers::Range> ranges,
                         double weight) {
  double sum = 0, count = 0;
  for (const Answers::Range& r : ranges) {
    sum -= a.sum(r);
    count += r.count();
  }
  const double nll = sum / std::max(1.0, count), each = weight * static_cast<double>(a.count());
  v.loss += each * nll;
  for (const Answers::Range& r : ranges) v.add_slope(r, -each / std::max(1.0, count));
  return nll;
}

}  // namespace ft
