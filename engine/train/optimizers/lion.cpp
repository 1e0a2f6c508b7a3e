// Lion (Chen et al., "Symbolic discovery of optimization algorithms", NeurIPS 2023), as bitsandbytes' and so
// transformers' `optim=lion`: its betas are adam_beta1 and adam_beta2.
#include <array>

#include "engine/train/optimizers/all.h"

namespace ft {
namespace {

class LionOptimizer final : public Optimizer {
 public:
  explicit LionOptimizer(const TrainingConfig& c)
      : betas_{c.adam_beta1, c.adam_beta2}, decay_(c.weight_decay) {}
  std::span<const StateSpec> states(const Parameter&) const override { return kStates; }
  void step(Ops& ops, const FlatRun& r, const StepScalars& s) const override {
    const Betas betas = s.betas.value_or(betas_);
    ops.run(op::Lion{.master = r.master,
                     .m = r.states[0],
                     .grad = r.grad,
                     .lr = s.rate,
                     .beta1 = betas.beta1,
                     .beta2 = betas.beta2,
                     .decay = r.decays ? decay_ : 0,
                     .grad_scale = static_cast<float>(s.grad_scale)});
  }

 private:
  static constexpr std::array<StateSpec, 1> kStates{{{.name = "exp_avg"}}};
  Betas betas_;
  double decay_;
};

}  // namespace

std::unique_ptr<const Optimizer> make_lion(const TrainingConfig& c) {
  return std::make_unique<LionOptimizer>(c);
}

}  // namespace ft
