#include "engine/train/optimizers/optimizer.h"

#include <algorithm>

#include "engine/ops/ops.h"
#include "engine/train/arguments.h"
#include "engine/train/optimizers/averaged.h"
#include "engine/train/optimizers/list.h"

namespace ft {

namespace {

void step_run(const Optimizer& optimizer, Ops& ops, const FlatRun& run, const StepScalars& all) {
  const StepScalars scalars = by_rule(all, run.rule);
  if (scalars.step > 0) return optimizer.step(ops, run, scalars);
  optimizer.rest(ops, run);
  if (run.value) ops.run(op::Cast{run.value, run.master});  // its memory may be a window's
}

}  // namespace

std::span<const OptimizerKind* const> OptimizerKind::all() { return optimizers::kOptimizers; }

void Optimizer::step_together(Ops& ops, std::span<const CompleteSlice> slices, const StepScalars& scalars,
                              Arena& scratch, Communicator&) const {
  for (const CompleteSlice& slice : slices) {
    const StepScalars own = by_rule(scalars, slice.parameter->rule);
    if (slice.count > 0 && own.step > 0) step_complete(ops, slice, own, scratch);
  }
}

std::unique_ptr<const Optimizer> make_optimizer(const TrainingConfig& config) {
  return make_optimizer(config, nowhere());
}

std::unique_ptr<const Optimizer> make_optimizer(const TrainingConfig& config, const SettingsText& tree) {
  auto optimizer = config.optim->make(config, tree);
  return config.ema_decay ? with_average(std::move(optimizer), *config.ema_decay) : std::move(optimizer);
}

StatesOf states_of(const TrainingConfig& config) {
  return [o = std::shared_ptr(make_optimizer(config))](const Parameter& p) { return o->states(p); };
}

void take_step(Ops& ops, ParameterStore& store, const Optimizer& optimizer, const StepScalars& scalars,
               Arena* scratch) {
  Ops& where = store.stepping().ops(ops);
  store.stepping().each_run([&](const FlatRun& run) {
    ops.enter(run.unit);
    step_run(optimizer, where, run, scalars);
  });
  store.stepping().each_complete(optimizer.wants_squares(), [&](std::span<const CompleteSlice> slices) {
    require(scratch != nullptr, "a step that looks at complete parameters needs memory");
    optimizer.step_together(ops, slices, scalars, *scratch, store.communicator());
  });
  store.publish();
}

EarlyStep early_step(const Optimizer& optimizer, const StepScalars& scalars, bool previous) {
  return {[&optimizer, scalars](Ops& ops, const FlatRun& run) { step_run(optimizer, ops, run, scalars); },
          previous};
}

double clip_coefficient(double norm, double most) {
  return most > 0 ? std::min(1.0, most / (norm + 1e-6)) : 1.0;
}

}  // namespace ft
