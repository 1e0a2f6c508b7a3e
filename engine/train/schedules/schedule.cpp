#include "engine/train/schedules/schedule.h"

#include <type_traits>
#include <utility>

#include "engine/train/arguments.h"
#include "engine/train/schedules/deepspeed.h"
#include "engine/train/schedules/greedy.h"
#include "engine/train/schedules/one_cycle.h"
#include "engine/train/schedules/plateau.h"
#include "engine/train/schedules/transformers.h"

namespace ft {
namespace {

using schedules::Run;

constexpr const char* kArguments = "training.lr_scheduler_kwargs";

// visit(the default arguments of a schedule).
auto with_schedule(LrScheduler type, auto visit) {
  using enum LrScheduler;
  using namespace schedules;
  switch (type) {
    case linear:
      return visit(Linear{});
    case cosine:
      return visit(Cosine{});
    case cosine_with_restarts:
      return visit(CosineWithRestarts{});
    case cosine_with_min_lr:
      return visit(CosineWithMinLr{});
    case cosine_warmup_with_min_lr:
      return visit(CosineWarmupWithMinLr{});
    case polynomial:
      return visit(Polynomial{});
    case inverse_sqrt:
      return visit(InverseSqrt{});
    case warmup_stable_decay:
      return visit(WarmupStableDecay{});
    case reduce_lr_on_plateau:
      return visit(ReduceLrOnPlateau{});
    case greedy:
      return visit(Greedy{});
    case warmup_lr:
      return visit(WarmupLr{});
    case warmup_decay_lr:
      return visit(WarmupDecayLr{});
    case warmup_cosine_lr:
      return visit(WarmupCosineLr{});
    case one_cycle:
      return visit(OneCycle{});
    case lr_range_test:
      return visit(LrRangeTest{});
    case constant_with_warmup:
      return visit(ConstantWithWarmup{});
    case constant:
      break;
  }
  return visit(Constant{});
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

Run run_of(const TrainingConfig& t, std::int64_t total) {
  return {.rate = t.learning_rate,
          .warmup = t.warmup(total),
          .total = total,
          .min_lr_ratio = t.min_lr_ratio,
          .betas = has_betas(t.optim)};
}

template <class Arguments>
Arguments arguments_of(Arguments defaults, const TrainingConfig& t, const Run& run,
                       const SettingsText& tree) {
  const std::string& text = t.lr_scheduler_kwargs.text;
  return read_arguments(std::move(defaults), name_of(t.lr_scheduler_type), kArguments,
                        text.empty() ? Json::object() : Json::parse(text), tree,
                        [&](const Arguments& arguments) -> std::string {
                          if constexpr (requires { arguments.mistake(run); }) return arguments.mistake(run);
                          return "";
                        });
}

}  // namespace

std::unique_ptr<const Schedule> make_schedule(const TrainingConfig& t, std::int64_t total) {
  const Run run = run_of(t, total);
  return with_schedule(t.lr_scheduler_type,
                       [&]<class Arguments>(Arguments defaults) -> std::unique_ptr<const Schedule> {
                         return std::make_unique<ScheduleOf<Arguments>>(
                             arguments_of(std::move(defaults), t, run, nowhere()), run);
                       });
}

std::unique_ptr<EvaluatedRate> make_evaluated_rate(const TrainConfig& c) {
  const TrainingConfig& t = c.training;
  const auto make = [&]<class Rate>(auto defaults, std::type_identity<Rate>) {
    const auto a = arguments_of(defaults, t, run_of(t, 0), nowhere());
    const bool higher = a.mode ? *a.mode == schedules::Better::higher : c.evaluation.greater();
    return std::make_unique<Rate>(a, t.learning_rate, higher);
  };
  if (t.lr_scheduler_type == LrScheduler::reduce_lr_on_plateau)
    return make(schedules::ReduceLrOnPlateau{}, std::type_identity<Plateau>{});
  if (t.lr_scheduler_type == LrScheduler::greedy)
    return make(schedules::Greedy{}, std::type_identity<GreedyRate>{});
  return nullptr;
}

void check_schedule(const TrainingConfig& t, const SettingsText& tree) {
  with_schedule(t.lr_scheduler_type,
                [&](auto defaults) { arguments_of(std::move(defaults), t, run_of(t, 0), tree); });
}

}  // namespace ft
