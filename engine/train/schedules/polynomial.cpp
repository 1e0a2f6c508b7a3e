// polynomial: transformers' schedule that falls as a power of the steps that are left.
#include <cmath>

#include "engine/core/rules.h"
#include "engine/train/schedules/made.h"
#include "engine/train/schedules/warmed_up.h"

namespace ft::schedules {
namespace {

struct Polynomial {
  double lr_end = 1e-7, power = 1;

  void fields(auto& f) {
    f("lr_end", lr_end, "The rate after the last step.", at_least(0));
    f("power", power, "Power of the fraction of steps that is left.", above(0));
  }
  std::string mistake(const Run&) const;
  double rate(std::int64_t step, const Run&) const;
};

std::string Polynomial::mistake(const Run& run) const {
  if (lr_end < run.rate) return "";
  return str("lr_end ", lr_end, " is not below training.learning_rate ", run.rate);
}

double Polynomial::rate(std::int64_t step, const Run& run) const {
  return warmed_up(step, run, [&](double x, double span) {
    const double left = x > span ? 0 : 1 - x / span;
    return ((run.rate - lr_end) * std::pow(left, power) + lr_end) / run.rate;
  });
}

}  // namespace

const ScheduleKind kPolynomial{"polynomial", make<Polynomial>};

}  // namespace ft::schedules
