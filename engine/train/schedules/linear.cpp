// linear: transformers' schedule that falls to 0 in a straight line.
#include <algorithm>

#include "engine/train/schedules/made.h"
#include "engine/train/schedules/warmed_up.h"

namespace ft::schedules {
namespace {

struct Linear {
  void fields(auto&) {}
  double rate(std::int64_t step, const Run&) const;
};

double Linear::rate(std::int64_t step, const Run& run) const {
  return warmed_up(step, run, [](double x, double span) { return std::max(0.0, 1 - x / span); });
}

}  // namespace

const ScheduleKind kLinear{"linear", make<Linear>};

}  // namespace ft::schedules
