// reduce_lr_on_plateau: torch's ReduceLROnPlateau, stepped by the evaluations as transformers' Trainer does.
// The rate falls when more than `patience` evaluations in a row were no better than the best.
#include <algorithm>
#include <cstdint>
#include <optional>

#include "engine/core/rules.h"
#include "engine/train/schedules/made.h"

namespace ft::schedules {
namespace {

struct ReduceLrOnPlateau {
  std::optional<Better> mode;  // empty: as evaluation.greater_is_better says
  double factor = 0.1;
  std::int64_t patience = 10;
  double threshold = 1e-4;
  Threshold threshold_mode = Threshold::relative;
  std::int64_t cooldown = 0;
  double min_lr = 0, eps = 1e-8;

  void fields(auto& f) {
    f("mode", mode, "Direction in which the figure improves; null: that of evaluation.greater_is_better.");
    f("factor", factor, "Factor by which the rate falls.", above(0), below(1));
    f("patience", patience, "Evaluations without progress before the rate falls.", at_least(0));
    f("threshold", threshold, "Least progress that counts.", at_least(0));
    f("threshold_mode", threshold_mode, "Progress as a fraction of the best figure, or as it is.");
    f("cooldown", cooldown, "Evaluations to skip after the rate has fallen.", at_least(0));
    f("min_lr", min_lr, "The lowest rate.", at_least(0));
    f("eps", eps, "Least fall of the rate; smaller ones are skipped.", at_least(0));
  }
  double rate(std::int64_t, const Run& run) const { return run.rate; }  // without any evaluation
};

class Plateau final : public EvaluatedRate {
 public:
  Plateau(const ReduceLrOnPlateau& c, double rate, bool higher) : EvaluatedRate(rate, higher), c_(c) {}

  void evaluated(double figure) override {
    s_.bad = improves(figure, c_.threshold_mode, c_.threshold) ? 0 : s_.bad + 1;
    if (s_.cooldown > 0) {
      --s_.cooldown;
      s_.bad = 0;
    }
    if (s_.bad <= c_.patience) return;
    s_.cooldown = c_.cooldown;
    s_.bad = 0;
    const double lower = std::max(s_.rate * c_.factor, c_.min_lr);
    if (s_.rate - lower > c_.eps) s_.rate = lower;
  }

 private:
  ReduceLrOnPlateau c_;
};

}  // namespace

const ScheduleKind kReduceLrOnPlateau{"reduce_lr_on_plateau", make<ReduceLrOnPlateau>,
                                      make_evaluated<Plateau, ReduceLrOnPlateau>};

}  // namespace ft::schedules
