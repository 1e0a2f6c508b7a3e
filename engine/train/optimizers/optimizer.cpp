#include "engine/train/optimizers/optimizer.h"

#include <algorithm>

#include "engine/train/optimizers/all.h"

namespace ft {

std::unique_ptr<const Optimizer> make_optimizer(const TrainingConfig& config) {
  switch (config.optim) {
    case Optim::lion:
      return make_lion(config);
    case Optim::sgd:
      return make_sgd(config);
    case Optim::adamw:
      break;
  }
  return make_adamw(config);
}

StatesOf states_of(const TrainingConfig& config) {
  return [o = std::shared_ptr(make_optimizer(config))](const Parameter& p) { return o->states(p); };
}

void take_step(Ops& ops, ParameterStore& store, const Optimizer& optimizer, const StepScalars& scalars) {
  Ops& where = store.stepping(ops);
  store.each_run([&](const FlatRun& run) {
    ops.enter(run.unit);
    optimizer.step(where, run, scalars);
  });
  store.publish();
}

EarlyStep early_step(const Optimizer& optimizer, const StepScalars& scalars, bool previous) {
  return {[&optimizer, scalars](Ops& ops, const FlatRun& run) { optimizer.step(ops, run, scalars); },
          previous};
}

double clip_coefficient(double norm, double most) {
  return most > 0 ? std::min(1.0, most / (norm + 1e-6)) : 1.0;
}

}  // namespace ft
