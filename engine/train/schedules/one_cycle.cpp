#include "engine/train/schedules/one_cycle.h"

#include <cmath>

#include "engine/core/error.h"

namespace ft::schedules {

// At the last step of a run beta1 is largest.
std::string OneCycle::mistake(const Run& run) const {
  if (cycle_momentum == true && !run.betas) return "cycle_momentum: the optimizer has no betas";
  const auto last = run.betas && run.total > 0 ? betas(run.total - 1) : std::nullopt;
  if (!last || last->beta1 < 1) return "";
  return str("decay_mom_rate ", decay_mom_rate, " makes beta1 ", last->beta1, " at step ", run.total,
             "; it has to stay below 1");
}

// DeepSpeed's position is of the iteration after this one, and its last is that where the cycle is over: step
// s stands at s, and at s = size() still in the cycle.
double OneCycle::height(std::int64_t step) const {
  const std::int64_t at = step % size();
  const bool rising = at <= cycle_first_step_size;
  const std::int64_t stairs =
      rising ? cycle_first_stair_count : cycle_second_stair_count.value_or(cycle_first_stair_count);
  const auto x = static_cast<double>(rising ? at : size() - at);
  const auto span = static_cast<double>(rising ? cycle_first_step_size : down());
  if (stairs == 0) return x / span;
  const auto n = static_cast<double>(stairs);
  return std::floor(x * n / span) / n;
}

double OneCycle::decays(std::int64_t step) const {
  return decay_step_size == 0 ? 0 : static_cast<double>(step - size()) / static_cast<double>(decay_step_size);
}

double OneCycle::rate(std::int64_t step, const Run&) const {
  if (step <= size()) return cycle_min_lr + (cycle_max_lr - cycle_min_lr) * height(step);
  return cycle_min_lr / (1 + decay_lr_rate * decays(step));
}

// The very first step has the smallest beta1 in DeepSpeed: its schedule has not stepped yet.
std::optional<Betas> OneCycle::betas(std::int64_t step) const {
  constexpr double kBeta2 = 0.99;
  if (cycle_momentum == false) return std::nullopt;
  if (step == 0) return Betas{cycle_min_mom, kBeta2};
  if (step <= size()) return Betas{cycle_max_mom - (cycle_max_mom - cycle_min_mom) * height(step), kBeta2};
  return Betas{cycle_max_mom * (1 + decay_mom_rate * decays(step)), kBeta2};
}

}  // namespace ft::schedules
