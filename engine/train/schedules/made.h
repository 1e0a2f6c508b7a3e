// Makers of schedules, for their descriptions. A schedule is a struct of its arguments, with fields() and
//   double rate(std::int64_t step, const Run&) const;
// and optionally
//   std::string mistake(const Run&) const;                // "": the arguments go together
//   std::optional<Betas> betas(std::int64_t step) const;  // in place of adam_beta1 and adam_beta2
#pragma once
#include <utility>

#include "engine/train/arguments.h"
#include "engine/train/schedules/list.h"
#include "engine/train/schedules/run.h"
#include "engine/train/schedules/schedule.h"

namespace ft::schedules {

template <class Arguments>
Arguments arguments_of(const TrainingConfig& t, const Run& run, const SettingsText& tree) {
  const std::string& text = t.lr_scheduler_kwargs.text;
  return read_arguments(Arguments{}, name_of(t.lr_scheduler_type), "training.lr_scheduler_kwargs",
                        text.empty() ? Json::object() : Json::parse(text), tree,
                        [&](const Arguments& arguments) -> std::string {
                          if constexpr (requires { arguments.mistake(run); }) return arguments.mistake(run);
                          return "";
                        });
}

template <class Arguments>
class ScheduleOf final : public Schedule {
 public:
  ScheduleOf(Arguments arguments, const Run& run) : arguments_(std::move(arguments)), run_(run) {}
  double rate(std::int64_t step) const override { return arguments_.rate(step, run_); }
  std::optional<Betas> betas(std::int64_t step) const override {
    if constexpr (requires { arguments_.betas(step); }) return arguments_.betas(step);
    return std::nullopt;
  }

 private:
  Arguments arguments_;
  Run run_;
};

// ScheduleKind::make.
template <class Arguments>
std::unique_ptr<const Schedule> make(const TrainingConfig& t, const Run& run, const SettingsText& tree) {
  return std::make_unique<ScheduleOf<Arguments>>(arguments_of<Arguments>(t, run, tree), run);
}

// ScheduleKind::evaluated, for arguments with a `mode`: the figure that is better.
template <class Rate, class Arguments>
std::unique_ptr<EvaluatedRate> make_evaluated(const TrainConfig& c, const Run& run) {
  const auto arguments = arguments_of<Arguments>(c.training, run, nowhere());
  const bool higher = arguments.mode ? *arguments.mode == Better::higher : c.evaluation.greater();
  return std::make_unique<Rate>(arguments, run.rate, higher);
}

}  // namespace ft::schedules
