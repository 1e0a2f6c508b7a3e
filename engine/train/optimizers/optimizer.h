// Optimizers: a step of training turns gradients into new weights. Each is a file in this folder, with its
// states, its update and its description (kind.h), and stands in list.h. The ParameterStore holds the states
// as declared here; nothing else knows them.
#pragma once
#include <limits>
#include <memory>
#include <optional>

#include "engine/core/arena.h"
#include "engine/train/config.h"
#include "engine/zero/parameter_store.h"

namespace ft {

struct SettingsText;

struct Betas {
  double beta1 = 0, beta2 = 0;
};

struct StepScalars {
  double rate;                      // the learning rate; in Optimizer::step, of the stepped parameters
  double grad_scale;                // gradients are multiplied by it first
  std::int64_t step = 1;            // steps that are not skipped, this one included; likewise
  std::optional<Betas> betas = {};  // of this step, in place of the settings'
};

inline constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();  // a step

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  virtual std::span<const StateSpec> states(const Parameter&) const = 0;
  // Updates elements independently of each other, or of other blocks, and writes FlatRun::value. Where
  // master, gradient and states are zero (the padding between parameters), the master stays zero.
  virtual void step(Ops&, const FlatRun&, const StepScalars&) const = 0;
  // Takes the place of step() for parameters that are not trained yet.
  virtual void rest(Ops&, const FlatRun&) const {}
  // Follows step() for parameters whose states want the complete gradient. Returns all memory to `scratch`.
  virtual void step_complete(Ops&, const CompleteSlice&, const StepScalars&, Arena& /*scratch*/) const {}
  // Takes the place of step_complete() for parameters that lie together; this rank may step none of them. The
  // scalars are the run's. Ranks may send messages.
  virtual void step_together(Ops&, std::span<const CompleteSlice>, const StepScalars&, Arena& scratch,
                             Communicator&) const;
  virtual bool wants_squares() const { return false; }  // CompleteSlice::squares
  // The first step for which the ranks' gradients are not added up: step_together does so in another way.
  virtual std::int64_t own_from() const { return kNever; }
};

// The argument of ParameterStore::begin_step for this step.
inline bool takes_own(const Optimizer& o, std::int64_t step) { return step >= o.own_from(); }

// A group may have its own rate and begin later than the rest: its steps count from there.
inline StepScalars by_rule(StepScalars scalars, const UpdateRule& rule) {
  scalars.step -= rule.frozen_steps;
  scalars.rate *= rule.rate;
  return scalars;
}

// Makes training.optim with training.optim_args. Throws UserError (config) for mistakes in the latter, by
// their place in the settings.
std::unique_ptr<const Optimizer> make_optimizer(const TrainingConfig&);
std::unique_ptr<const Optimizer> make_optimizer(const TrainingConfig&, const SettingsText& settings);

// The states that the optimizer declares.
StatesOf states_of(const TrainingConfig&);

// Steps all that this rank steps, a launch for each run, and publishes it.
// scratch: for optimizers that look at complete parameters.
void take_step(Ops&, ParameterStore&, const Optimizer&, const StepScalars&, Arena* scratch = nullptr);
// Takes the step beside the next backward pass, with the gradients of that pass or of the step before. The
// optimizer must live until then.
EarlyStep early_step(const Optimizer&, const StepScalars&, bool previous);

// torch's clip_grad_norm_: the factor that shortens a gradient of this norm to `most` (0: never).
double clip_coefficient(double norm, double most);

}  // namespace ft
