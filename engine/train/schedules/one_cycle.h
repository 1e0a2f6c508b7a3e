// DeepSpeed's OneCycle (Smith, "A disciplined approach to neural network hyper-parameters", 2018): the rate
// rises and falls once and then decays, and AdamW's beta1 does the opposite.
#pragma once
#include <optional>
#include <string>

#include "engine/core/rules.h"
#include "engine/train/optimizers/optimizer.h"
#include "engine/train/schedules/run.h"

namespace ft::schedules {

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
    f("cycle_min_lr", cycle_min_lr, "The rate where the cycle begins and ends.", required(), at_least(0));
    f("cycle_max_lr", cycle_max_lr, "The rate in its middle.", required(), at_least(0));
    f("decay_lr_rate", decay_lr_rate, "After the cycle: how fast the rate falls.", at_least(0));
    f("cycle_first_step_size", cycle_first_step_size, "Steps in which the rate rises.", at_least(1));
    f("cycle_second_step_size", cycle_second_step_size, "Steps in which it falls; null: the same.",
      at_least(1));
    f("cycle_first_stair_count", cycle_first_stair_count, "Stairs up; 0: none, the rate rises evenly.",
      at_least(0));
    f("cycle_second_stair_count", cycle_second_stair_count, "Stairs down; null: the same.", at_least(0));
    f("decay_step_size", decay_step_size, "After the cycle: steps of one decay; 0: it does not decay.",
      at_least(0));
    f("cycle_momentum", cycle_momentum,
      "Cycle beta1 against the rate, and set beta2 to 0.99; null: where the optimizer has betas.");
    f("cycle_min_mom", cycle_min_mom, "beta1 in the middle of the cycle.", at_least(0), below(1));
    f("cycle_max_mom", cycle_max_mom, "beta1 where it begins and ends.", at_least(0), below(1));
    f("decay_mom_rate", decay_mom_rate, "After the cycle: how fast beta1 grows.", at_least(0));
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

}  // namespace ft::schedules
