// greedy: transformers' GreedyLR (arXiv 2512.14527), stepped by the evaluations as its Trainer does. The rate
// rises after more than `patience` evaluations in a row that bring progress, and falls after as many that
// bring none.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>

#include "engine/core/rules.h"
#include "engine/train/schedules/made.h"

namespace ft::schedules {
namespace {

struct Greedy {
  std::optional<Better> mode;  // empty: as evaluation.greater_is_better says
  double factor = 0.95;
  std::int64_t patience = 10;
  double threshold = 1e-6;
  Threshold threshold_mode = Threshold::absolute;
  std::int64_t cooldown = 0, warmup = 0;
  double min_lr = 1e-3, max_lr = 1, eps = 1e-8;
  bool smooth = false;
  std::int64_t window_size = 50, reset_start = 500;

  void fields(auto& f) {
    f("mode", mode, "Direction in which the figure improves; null: that of evaluation.greater_is_better.");
    f("factor", factor, "Factor by which the rate falls; it rises by the inverse.", above(0), below(1));
    f("patience", patience, "Evaluations in a row without a change of the rate.", at_least(0));
    f("threshold", threshold, "Least progress that counts.", at_least(0));
    f("threshold_mode", threshold_mode, "Progress as a fraction of the best figure, or as it is.");
    f("cooldown", cooldown, "Evaluations to skip after the rate has fallen.", at_least(0));
    f("warmup", warmup, "Evaluations to skip after the rate has risen.", at_least(0));
    f("min_lr", min_lr, "Lowest rate.", at_least(0));
    f("max_lr", max_lr, "Highest rate.", above(0));
    f("eps", eps, "Least change of the rate; smaller ones are skipped.", at_least(0));
    f("smooth", smooth, "Judge the mean of the last figures.");
    f("window_size", window_size, "Figures in this mean.", at_least(1));
    f("reset_start", reset_start, "Falls at the lowest rate before the schedule starts anew.", at_least(0));
  }
  double rate(std::int64_t, const Run& run) const { return run.rate; }  // without any evaluation
};

class GreedyRate final : public EvaluatedRate {
 public:
  GreedyRate(const Greedy& c, double rate, bool higher) : EvaluatedRate(rate, higher), c_(c), first_(rate) {
    s_.falls_left = c_.reset_start;
  }

  void evaluated(double figure) override {
    if (c_.smooth) figure = averaged(figure);
    if (s_.cooldown > 0 || s_.warmup > 0) {
      --(s_.cooldown > 0 ? s_.cooldown : s_.warmup);
      s_.good = s_.bad = 0;
      return;
    }
    const bool progress = improves(figure, c_.threshold_mode, c_.threshold);
    s_.good = progress ? s_.good + 1 : 0;
    s_.bad = progress ? 0 : s_.bad + 1;
    if (s_.good > c_.patience) rise();
    if (s_.bad > c_.patience) fall();
  }

 private:
  // Figures that are no numbers are left out.
  double averaged(double figure) {
    if (!std::isfinite(figure)) return figure;
    s_.window.push_back(figure);
    s_.window_sum += figure;
    if (s_.window.size() > static_cast<std::size_t>(c_.window_size)) {
      s_.window_sum -= s_.window.front();
      s_.window.erase(s_.window.begin());
    }
    return s_.window_sum / static_cast<double>(s_.window.size());
  }
  void rise() {
    const double higher = std::min(s_.rate / c_.factor, c_.max_lr);
    if (higher - s_.rate > c_.eps) s_.rate = higher;
    s_.falls_left = c_.reset_start;
    s_.warmup = c_.warmup;
    s_.good = 0;
  }
  void fall() {
    const double lower = std::max(s_.rate * c_.factor, c_.min_lr);
    if (s_.rate - lower > c_.eps) s_.rate = lower;
    if (s_.rate <= c_.min_lr && --s_.falls_left <= 0) {
      s_ = State{};
      s_.rate = first_;
      s_.falls_left = c_.reset_start;
    }
    s_.cooldown = c_.cooldown;
    s_.bad = 0;
  }

  Greedy c_;
  double first_;
};

}  // namespace

const ScheduleKind kGreedy{"greedy", make<Greedy>, make_evaluated<GreedyRate, Greedy>};

}  // namespace ft::schedules
