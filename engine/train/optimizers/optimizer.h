// What a training step does with gradients. An optimizer is a file in this folder: the states that it keeps,
// and its update. The ParameterStore holds the states as declared here; nothing else knows them.
#pragma once
#include <memory>
#include <optional>

#include "engine/dist/parameter_store.h"
#include "engine/train/config.h"

namespace ft {

struct Betas {
  double beta1 = 0, beta2 = 0;
};

struct StepScalars {
  double rate;                      // the learning rate
  double grad_scale;                // gradients are multiplied by it first
  std::int64_t step = 1;            // steps that are not skipped, this one included
  std::optional<Betas> betas = {};  // of this step, in place of the settings'
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  virtual std::span<const StateSpec> states(const Parameter&) const = 0;
  // Elements are updated independently, or together with those of their block. Where master, gradient and
  // states are zero (the padding between parameters) they stay zero.
  virtual void step(Ops&, const FlatRun&, const StepScalars&) const = 0;
};

// By training.optim.
std::unique_ptr<const Optimizer> make_optimizer(const TrainingConfig&);

// What that optimizer declares.
StatesOf states_of(const TrainingConfig&);

// Steps all that this rank steps, a launch for each run, and publishes it.
void take_step(Ops&, ParameterStore&, const Optimizer&, const StepScalars&);
// The same beside the next backward pass, with its gradients or those of the step before. The optimizer must
// live until then.
EarlyStep early_step(const Optimizer&, const StepScalars&, bool previous);

// torch's clip_grad_norm_: the factor that shortens a gradient of this norm to `most` (0: never).
double clip_coefficient(double norm, double most);

}  // namespace ft
