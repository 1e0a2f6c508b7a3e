// What a training step does with gradients. An optimizer is a file in this folder: the states that it keeps,
// and its update. The ParameterStore holds the states as declared here; nothing else knows them.
#pragma once
#include <memory>
#include <optional>

#include "engine/core/arena.h"
#include "engine/dist/parameter_store.h"
#include "engine/train/config.h"

namespace ft {

struct SettingsText;

struct Betas {
  double beta1 = 0, beta2 = 0;
};

struct StepScalars {
  double rate;                      // the learning rate; in Optimizer::step that of what is stepped
  double grad_scale;                // gradients are multiplied by it first
  std::int64_t step = 1;            // steps that are not skipped, this one included; likewise
  std::optional<Betas> betas = {};  // of this step, in place of the settings'
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  virtual std::span<const StateSpec> states(const Parameter&) const = 0;
  // Elements are updated independently, or together with those of their block. Where master, gradient and
  // states are zero (the padding between parameters), the master stays zero.
  virtual void step(Ops&, const FlatRun&, const StepScalars&) const = 0;
  // In place of it, where it is not trained yet.
  virtual void rest(Ops&, const FlatRun&) const {}
  // After it, for parameters whose states want the whole gradient. What is taken from `scratch` is given
  // back.
  virtual void step_whole(Ops&, const WholeSlice&, const StepScalars&, Arena& /*scratch*/) const {}
  virtual bool wants_squares() const { return false; }  // WholeSlice::squares
};

// By training.optim and training.optim_args. Throws UserError(config) for mistakes in the latter, by their
// place in the settings.
std::unique_ptr<const Optimizer> make_optimizer(const TrainingConfig&);
std::unique_ptr<const Optimizer> make_optimizer(const TrainingConfig&, const SettingsText& settings);

// What that optimizer declares.
StatesOf states_of(const TrainingConfig&);

// Steps all that this rank steps, a launch for each run, and publishes it.
// scratch: for optimizers that look at parameters as a whole.
void take_step(Ops&, ParameterStore&, const Optimizer&, const StepScalars&, Arena* scratch = nullptr);
// The same beside the next backward pass, with its gradients or those of the step before. The optimizer must
// live until then.
EarlyStep early_step(const Optimizer&, const StepScalars&, bool previous);

// torch's clip_grad_norm_: the factor that shortens a gradient of this norm to `most` (0: never).
double clip_coefficient(double norm, double most);

}  // namespace ft
