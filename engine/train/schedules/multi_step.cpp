// multi_step: the rate falls by a factor at each milestone, as torch's MultiStepLR.
#include <algorithm>
#include <cmath>

#include "engine/core/rules.h"
#include "engine/train/schedules/made.h"
#include "engine/train/schedules/warmed_up.h"

namespace ft::schedules {
namespace {

struct MultiStep {
  std::vector<std::int64_t> milestones;  // steps of the run, with its warm-up
  double gamma = 0.1;

  void fields(auto& f) {
    f("milestones", milestones, "Steps after which the rate is multiplied by gamma.", required(), not_empty(),
      at_least(1));
    f("gamma", gamma, "Factor of the rate at a milestone.", above(0));
  }
  std::string mistake(const Run&) const;
  double rate(std::int64_t step, const Run&) const;
};

std::string MultiStep::mistake(const Run& run) const {
  if (std::ranges::adjacent_find(milestones, std::greater_equal<>()) != milestones.end())
    return "milestones are not in ascending order";
  if (milestones[0] < run.warmup)
    return str("the first milestone, ", milestones[0], ", is in the warm-up of ", run.warmup, " steps");
  return "";
}

double MultiStep::rate(std::int64_t step, const Run& run) const {
  const auto passed = std::ranges::upper_bound(milestones, step) - milestones.begin();
  return warmed_up(step, run, [&](double, double) { return std::pow(gamma, static_cast<double>(passed)); });
}

}  // namespace

const ScheduleKind kMultiStep{"multi_step", make<MultiStep>};

}  // namespace ft::schedules
