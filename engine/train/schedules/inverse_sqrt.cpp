// inverse_sqrt: transformers' schedule that falls as the inverse root of the steps.
#include <cmath>

#include "engine/core/rules.h"
#include "engine/train/schedules/made.h"
#include "engine/train/schedules/warmed_up.h"

namespace ft::schedules {
namespace {

struct InverseSqrt {
  std::optional<std::int64_t> timescale;

  void fields(auto& f) {
    f("timescale", timescale, "Steps in which the rate falls to 0.71; null: the warm-up's, else 10000.",
      at_least(1));
  }
  double rate(std::int64_t step, const Run&) const;
};

double InverseSqrt::rate(std::int64_t step, const Run& run) const {
  const auto scale = static_cast<double>(timescale.value_or(run.warmup > 0 ? run.warmup : 10000));
  return warmed_up(step, run, [&](double x, double) { return 1 / std::sqrt((x + scale) / scale); });
}

}  // namespace

const ScheduleKind kInverseSqrt{"inverse_sqrt", make<InverseSqrt>};

}  // namespace ft::schedules
