// Stochastic gradient descent as torch.optim.SGD: the weight decay is part of the gradient.
#include <array>

#include "engine/ops/ops.h"
#include "engine/train/optimizers/arguments.h"
#include "engine/train/optimizers/list.h"
#include "engine/train/optimizers/optimizer.h"

namespace ft {
namespace {

struct SgdArguments {
  double momentum = 0, dampening = 0;
  bool nesterov = false;

  void fields(auto& f) {
    f("momentum", momentum, "Part of the last update that is added to the next.", at_least(0));
    f("dampening", dampening, "Part of the gradient that is not added to the momentum.");
    f("nesterov", nesterov, "Nesterov's momentum.");
  }
  std::string mistake() const {
    return nesterov && (momentum == 0 || dampening != 0) ? "nesterov needs a momentum and no dampening" : "";
  }
};

class SgdOptimizer final : public Optimizer {
 public:
  SgdOptimizer(const SgdArguments& a, double decay) : arguments_(a), decay_(decay) {}
  std::span<const StateSpec> states(const Parameter&) const override {
    return std::span(kStates).first(arguments_.momentum > 0 ? 1 : 0);
  }
  void step(Ops& ops, const FlatRun& r, const StepScalars& s) const override {
    ops.run(op::Sgd{.master = r.master,
                    .value = r.value,
                    .buffer = r.states.empty() ? Tensor{} : r.states[0],
                    .grad = r.grad,
                    .lr = s.rate,
                    .decay = r.decay(decay_),
                    .grad_scale = static_cast<float>(s.grad_scale),
                    .momentum = arguments_.momentum,
                    .dampening = arguments_.dampening,
                    .nesterov = arguments_.nesterov,
                    .step = s.step});
  }

 private:
  static constexpr std::array<StateSpec, 1> kStates{{{.name = "momentum_buffer"}}};
  SgdArguments arguments_;
  double decay_;
};

std::unique_ptr<const Optimizer> make_sgd(const TrainingConfig& c, const SettingsText& tree) {
  return std::make_unique<SgdOptimizer>(optim_args_of<SgdArguments>(c, tree), c.weight_decay);
}

}  // namespace

const OptimizerKind optimizers::kSgd{.name = "sgd", .make = make_sgd};

}  // namespace ft
