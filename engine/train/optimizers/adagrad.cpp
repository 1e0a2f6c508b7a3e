// Adagrad (Duchi et al., "Adaptive subgradient methods", JMLR 2011), as torch.optim.Adagrad: the weight decay
// is part of the gradient.
#include <array>

#include "engine/ops/ops.h"
#include "engine/train/optimizers/arguments.h"
#include "engine/train/optimizers/list.h"
#include "engine/train/optimizers/optimizer.h"

namespace ft {
namespace {

struct AdagradArguments {
  double lr_decay = 0, eps = 1e-10;

  void fields(auto& f) {
    f("lr_decay", lr_decay, "The rate is divided by 1 + (step - 1) lr_decay.", at_least(0));
    f("eps", eps, "Added to the root of the sum of squares.", above(0));
  }
};

class AdagradOptimizer final : public Optimizer {
 public:
  AdagradOptimizer(const AdagradArguments& a, double decay) : arguments_(a), decay_(decay) {}
  std::span<const StateSpec> states(const Parameter&) const override { return kStates; }
  void step(Ops& ops, const FlatRun& r, const StepScalars& s) const override {
    ops.run(op::Adagrad{.master = r.master,
                        .value = r.value,
                        .sum = r.states[0],
                        .grad = r.grad,
                        .lr = s.rate,
                        .lr_decay = arguments_.lr_decay,
                        .eps = arguments_.eps,
                        .decay = r.decay(decay_),
                        .grad_scale = static_cast<float>(s.grad_scale),
                        .step = s.step});
  }

 private:
  static constexpr std::array<StateSpec, 1> kStates{{{.name = "sum"}}};
  AdagradArguments arguments_;
  double decay_;
};

std::unique_ptr<const Optimizer> make_adagrad(const TrainingConfig& c, const SettingsText& tree) {
  return std::make_unique<AdagradOptimizer>(optim_args_of<AdagradArguments>(c, tree), c.weight_decay);
}

}  // namespace

const OptimizerKind optimizers::kAdagrad{.name = "adagrad", .make = make_adagrad};

}  // namespace ft
