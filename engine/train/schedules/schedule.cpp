#include "engine/train/schedules/schedule.h"

#include "engine/train/arguments.h"
#include "engine/train/schedules/list.h"
#include "engine/train/schedules/run.h"

namespace ft {
namespace {

using schedules::Run;

Run run_of(const TrainingConfig& t, std::int64_t total) {
  return {.rate = t.learning_rate,
          .warmup = t.warmup(total),
          .total = total,
          .min_lr_ratio = t.min_lr_ratio,
          .betas = t.optim->betas};
}

}  // namespace

std::span<const ScheduleKind* const> ScheduleKind::all() { return schedules::kSchedules; }

std::unique_ptr<const Schedule> make_schedule(const TrainingConfig& t, std::int64_t total) {
  return t.lr_scheduler_type->make(t, run_of(t, total), nowhere());
}

std::unique_ptr<EvaluatedRate> make_evaluated_rate(const TrainConfig& c) {
  const auto evaluated = c.training.lr_scheduler_type->evaluated;
  return evaluated ? evaluated(c, run_of(c.training, 0)) : nullptr;
}

void check_schedule(const TrainingConfig& t, const SettingsText& tree) {
  t.lr_scheduler_type->make(t, run_of(t, 0), tree);
}

}  // namespace ft
