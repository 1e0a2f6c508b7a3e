// Stochastic gradient descent as torch.optim.SGD without momentum: no states, and the weight decay is part of
// the gradient.
#include "engine/train/optimizers/all.h"

namespace ft {
namespace {

class SgdOptimizer final : public Optimizer {
 public:
  explicit SgdOptimizer(const TrainingConfig& c) : decay_(c.weight_decay) {}
  std::span<const StateSpec> states(const Parameter&) const override { return {}; }
  void step(Ops& ops, const FlatRun& r, const StepScalars& s) const override {
    const auto f = [](double v) { return static_cast<float>(v); };
    ops.run(op::Sgd{.master = r.master,
                    .grad = r.grad,
                    .lr = f(s.rate),
                    .decay = f(r.decays ? decay_ : 0),
                    .grad_scale = f(s.grad_scale)});
  }

 private:
  double decay_;
};

}  // namespace

std::unique_ptr<const Optimizer> make_sgd(const TrainingConfig& c) {
  return std::make_unique<SgdOptimizer>(c);
}

}  // namespace ft
