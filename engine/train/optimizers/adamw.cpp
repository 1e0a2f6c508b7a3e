// AdamW (Loshchilov, Hutter, "Decoupled weight decay regularization", ICLR 2019), as torch.optim.AdamW;
// without adam_w_mode, DeepSpeed's word, torch.optim.Adam.
#include <array>

#include "engine/train/optimizers/all.h"

namespace ft {
namespace {

class AdamWOptimizer final : public Optimizer {
 public:
  explicit AdamWOptimizer(const TrainingConfig& c)
      : betas_{c.adam_beta1, c.adam_beta2},
        eps_(c.adam_epsilon),
        decay_(c.weight_decay),
        decoupled_(c.adam_w_mode) {}
  std::span<const StateSpec> states(const Parameter&) const override { return kStates; }
  void step(Ops& ops, const FlatRun& r, const StepScalars& s) const override {
    const Betas betas = s.betas.value_or(betas_);
    ops.run(op::AdamW{.master = r.master,
                      .m = r.states[0],
                      .v = r.states[1],
                      .grad = r.grad,
                      .lr = s.rate,
                      .beta1 = betas.beta1,
                      .beta2 = betas.beta2,
                      .eps = eps_,
                      .decay = r.decays ? decay_ : 0,
                      .grad_scale = static_cast<float>(s.grad_scale),
                      .step = s.step,
                      .decoupled = decoupled_});
  }

 private:
  static constexpr std::array<StateSpec, 2> kStates{{{.name = "exp_avg"}, {.name = "exp_avg_sq"}}};
  Betas betas_;
  double eps_, decay_;
  bool decoupled_;
};

}  // namespace

std::unique_ptr<const Optimizer> make_adamw(const TrainingConfig& c) {
  return std::make_unique<AdamWOptimizer>(c);
}

}  // namespace ft
