#include "engine/train/reports/spikes.h"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <sstream>

#include "engine/core/error.h"

namespace ft {
namespace {

constexpr std::size_t kMost = 64, kLeast = 32;
constexpr double kTimes = 2, kDistances = 10;

double median(std::vector<double> x) {
  const auto middle = x.begin() + std::ssize(x) / 2;
  std::nth_element(x.begin(), middle, x.end());
  return *middle;
}

std::string digits(double x) {
  std::ostringstream out;
  out << std::setprecision(4) << x;
  return out.str();
}

}  // namespace

void Spikes::progress(const StepRow& row) {
  if (!std::isfinite(row.loss)) return;
  if (last_.size() >= kLeast && row.step >= silent_until_) {
    std::vector<double> x(last_.begin(), last_.end());
    const double usual = median(x);
    for (double& loss : x) loss = std::fabs(loss - usual);
    if (usual > 0 && row.loss > kTimes * usual && row.loss - usual > kDistances * median(x)) {
      warned_.warning(str("step ", row.step, ": the loss jumps to ", digits(row.loss), "; it is usually ",
                          digits(usual)));
      silent_until_ = row.step + static_cast<std::int64_t>(kLeast);
    }
  }
  last_.push_back(row.loss);
  if (last_.size() > kMost) last_.pop_front();
}

void Spikes::evaluation(const EvalRow& row) {
  if (std::isfinite(row.eval_loss) || named_evaluation_) return;
  warned_.warning(str("step ", row.step, ": the evaluation's loss is not finite; it is never the best one"));
  named_evaluation_ = true;
}

}  // namespace ft
