// Steps this rank's slices of what is trained: torch's AdamW, or SGD. The states live in the ParameterStore.
#pragma once
#include "engine/dist/parameter_store.h"
#include "engine/train/config.h"

namespace ft {

class Optimizer {
 public:
  explicit Optimizer(const TrainingConfig& config) : config_(config) {}
  // f32 arrays it keeps for each element.
  int states() const { return config_.optim == "sgd" ? 0 : 2; }
  // The optimizer step number `step` (1-based): gradients are multiplied by `grad_scale` first.
  void step(Ops&, ParameterStore&, double rate, double grad_scale, std::int64_t step) const;

 private:
  TrainingConfig config_;
};

// torch's clip_grad_norm_: the factor that shortens a gradient of this norm to `most` (0: never).
double clip_coefficient(double norm, double most);

}  // namespace ft
