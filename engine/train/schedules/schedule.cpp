#include "engine/train/schedules/schedule.h"

#include <algorithm>
#include <utility>

#include "engine/core/suggest.h"
#include "engine/io/fields.h"
#include "engine/train/schedules/deepspeed.h"
#include "engine/train/schedules/one_cycle.h"
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
          .betas = t.optim != Optim::sgd};
}

// Takes the keys out of `given` that the schedule does not have, a mistake each.
void refuse_unknown(LrScheduler type, Json& given, const std::vector<std::string>& known, Reading& to) {
  std::string all;
  for (const std::string& name : known) all += (all.empty() ? "" : ", ") + name;
  Json kept = Json::object();
  for (const auto& [key, value] : given.items()) {
    if (std::find(known.begin(), known.end(), key) != known.end()) {
      kept[key] = value;
      continue;
    }
    const std::string near = nearest(key, known);
    to.fail(str(kArguments, ".", key),
            str(name_of(type), known.empty() ? " takes no arguments" : " has no such argument",
                near.empty() ? "" : "; do you mean " + near + "?",
                known.empty() ? "" : str(near.empty() ? "; it has " : " It has ", all)));
  }
  given = std::move(kept);
}

template <class Arguments>
Arguments read_arguments(Arguments arguments, const TrainingConfig& t, const Run& run,
                         const SettingsText& tree) {
  Reading reading(tree, "", {});
  Json given = t.lr_scheduler_kwargs.text.empty() ? Json::object() : Json::parse(t.lr_scheduler_kwargs.text);
  if (!given.is_object()) {
    reading.expected(kArguments, "an object {...}", given);
    reading.finish();
  }
  std::vector<std::string> known;
  for (const Setting& s : describe<Arguments>()) known.push_back(s.path);
  refuse_unknown(t.lr_scheduler_type, given, known, reading);
  Reader::section(reading, given, arguments, kArguments);
  reading.finish();
  if constexpr (requires { arguments.mistake(run); })
    if (const std::string mistake = arguments.mistake(run); !mistake.empty())
      reading.fail(kArguments, str(name_of(t.lr_scheduler_type), ": ", mistake));
  reading.finish();
  return arguments;
}

// Of settings that were checked where their lines were known.
SettingsText nowhere() { return {.value = Json::object(), .lines = {}, .name = "settings"}; }

}  // namespace

std::unique_ptr<const Schedule> make_schedule(const TrainingConfig& t, std::int64_t total) {
  const Run run = run_of(t, total);
  return with_schedule(t.lr_scheduler_type,
                       [&]<class Arguments>(Arguments defaults) -> std::unique_ptr<const Schedule> {
                         return std::make_unique<ScheduleOf<Arguments>>(
                             read_arguments(std::move(defaults), t, run, nowhere()), run);
                       });
}

std::optional<Plateau> make_plateau(const TrainConfig& c) {
  const TrainingConfig& t = c.training;
  if (t.lr_scheduler_type != LrScheduler::reduce_lr_on_plateau) return std::nullopt;
  const auto arguments = read_arguments(schedules::ReduceLrOnPlateau{}, t, run_of(t, 0), nowhere());
  return Plateau(arguments, t.learning_rate, c.evaluation.greater());
}

void check_schedule(const TrainingConfig& t, const SettingsText& tree) {
  with_schedule(t.lr_scheduler_type,
                [&](auto defaults) { read_arguments(std::move(defaults), t, run_of(t, 0), tree); });
}

}  // namespace ft
