// Notices steps whose loss is far above the usual loss, so that a person can look at their samples, and
// evaluations whose loss is not finite.
#pragma once
#include <deque>

#include "engine/train/reports/report.h"

namespace ft {

// Warns of a step whose loss is above twice the median of the last 64 steps, and above it by more than ten
// times their median distance from it (Hampel's test). Says nothing before 32 steps, and not again for 32
// steps.
class Spikes final : public Report {
 public:
  // `warned` hears of them, and outlives this object.
  explicit Spikes(Report& warned) : warned_(warned) {}
  void progress(const StepRow& row) override;
  void evaluation(const EvalRow& row) override;  // warns of the first one that is not finite

 private:
  Report& warned_;
  std::deque<double> last_;  // losses
  std::int64_t silent_until_ = 0;
  bool named_evaluation_ = false;
};

}  // namespace ft
