// The description of a learning rate's schedule, which stands in the schedule's own file.
#pragma once
#include <memory>
#include <span>

namespace ft {

class EvaluatedRate;
class Schedule;
struct SettingsText;
struct TrainConfig;
struct TrainingConfig;

namespace schedules {
struct Run;
}

struct ScheduleKind {
  const char* name;  // in training.lr_scheduler_type
  // Throws UserError (config) with every mistake in training.lr_scheduler_kwargs, by its place in the
  // settings.
  std::unique_ptr<const Schedule> (*make)(const TrainingConfig&, const schedules::Run&,
                                          const SettingsText&) = nullptr;
  // The rate in place of the schedule's, for one that goes by the run's evaluations; null: it goes by steps.
  std::unique_ptr<EvaluatedRate> (*evaluated)(const TrainConfig&, const schedules::Run&) = nullptr;

  static std::span<const ScheduleKind* const> all();
};

namespace schedules {
extern const ScheduleKind kCosine;  // the default
}

}  // namespace ft
