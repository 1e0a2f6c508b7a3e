// DeepSpeed's OneCycle (Smith, "A disciplined approach to neural network hyper-parameters", 2018): the rate
// rises and falls once and then decays, and AdamW's beta1 does the opposite.
#include <cmath>
#include <optional>
#include <string>

#include "engine/core/rules.h"
#include "engine/train/schedules/made.h"

namespace ft::schedules {
namespace {

struct OneCycle {
  double cycle_min_lr = 0, cycle_max_lr = 0, decay_lr_rate = 0;
  std::int64_t cycle_first_step_size = 2000;
  std::optional<std::int64_t> cycle_second_step_size;  // empty: the first's
  std::int64_t cycle_first_stair_count = 0;
  std::optional<std::int64_t> cycle_second_stair_count;  // empty: the first's
  std::int64_t decay_step_size = 0;
  std::optional<bool> cycle_momentum;  // empty: where the optimizer has betas
  double cycle_min_mom = 0.8, cycle_max_mom = 0.9, decay_mom_rate = 0;

  void fields(auto& f) {
    f("cycle_min_lr", cycle_min_lr, "The rate at the start and the end of the cycle.", required(),
      at_least(0));
    f("cycle_max_lr", cycle_max_lr, "The rate in the middle of the cycle.", required(), at_least(0));
    f("decay_lr_rate", decay_lr_rate, "After the cycle: decay of the rate.", at_least(0));
    f("cycle_first_step_size", cycle_first_step_size, "Steps in which the rate rises.", at_least(1));
    f("cycle_second_step_size", cycle_second_step_size,
      "Steps in which the rate falls; null: as many as it rises.", at_least(1));
    f("cycle_first_stair_count", cycle_first_stair_count, "Stairs up; 0: none, the rate rises evenly.",
      at_least(0));
    f("cycle_second_stair_count", cycle_second_stair_count, "Stairs down; null: the same.", at_least(0));
    f("decay_step_size", decay_step_size, "After the cycle: steps of one decay; 0: it does not decay.",
      at_least(0));
    f("cycle_momentum", cycle_momentum,
      "Cycle beta1 against the rate, and set beta2 to 0.99; null: if the optimizer has betas.");
    f("cycle_min_mom", cycle_min_mom, "beta1 in the middle of the cycle.", at_least(0), below(1));
    f("cycle_max_mom", cycle_max_mom, "beta1 at the start and the end of the cycle.", at_least(0), below(1));
    f("decay_mom_rate", decay_mom_rate, "After the cycle: growth of beta1.", at_least(0));
  }
  std::string mistake(const Run&) const;
  double rate(std::int64_t step, const Run&) const;
  std::optional<Betas> betas(std::int64_t step) const;

 private:
  std::int64_t down() const { return cycle_second_step_size.value_or(cycle_first_step_size); }
  std::int64_t size() const { return cycle_first_step_size + down(); }
  double height(std::int64_t step) const;  // in the cycle, from 0 to 1
  double decays(std::int64_t step) const;  // since the cycle's end
};

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

}  // namespace

const ScheduleKind kOneCycle{"OneCycle", make<OneCycle>};

}  // namespace ft::schedules
