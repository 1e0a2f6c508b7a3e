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
