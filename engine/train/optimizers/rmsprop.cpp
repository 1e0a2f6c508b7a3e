// RMSprop (Hinton, "Neural networks for machine learning", lecture 6, 2012), as torch.optim.RMSprop: the
// weight decay is part of the gradient.
#include <array>

#include "engine/ops/ops.h"
#include "engine/train/optimizers/arguments.h"
#include "engine/train/optimizers/list.h"
#include "engine/train/optimizers/optimizer.h"

namespace ft {
namespace {

struct RmsPropArguments {
  double alpha = 0.99, eps = 1e-8, momentum = 0;
  bool centered = false;

  void fields(auto& f) {
    f("alpha", alpha, "Decay of the mean of squared gradients.", at_least(0), at_most(1));
    f("eps", eps, "Added to the root of that mean.", above(0));
    f("momentum", momentum, "Part of the last update that is added to the next.", at_least(0));
    f("centered", centered, "Take the square of the mean gradient from that mean.");
  }
};

class RmsPropOptimizer final : public Optimizer {
 public:
  RmsPropOptimizer(const RmsPropArguments& a, double decay) : arguments_(a), decay_(decay) {
    states_.push_back({.name = "square_avg"});
    if (a.centered) states_.push_back({.name = "grad_avg"});
    if (a.momentum > 0) states_.push_back({.name = "momentum_buffer"});
  }
  std::span<const StateSpec> states(const Parameter&) const override { return states_; }
  void step(Ops& ops, const FlatRun& r, const StepScalars& s) const override {
    ops.run(op::RmsProp{.master = r.master,
                        .value = r.value,
                        .square = r.states[0],
                        .mean = arguments_.centered ? r.states[1] : Tensor{},
                        .buffer = arguments_.momentum > 0 ? r.states.back() : Tensor{},
                        .grad = r.grad,
                        .lr = s.rate,
                        .alpha = arguments_.alpha,
                        .eps = arguments_.eps,
                        .momentum = arguments_.momentum,
                        .decay = r.decay(decay_),
                        .grad_scale = static_cast<float>(s.grad_scale)});
  }

 private:
  std::vector<StateSpec> states_;
  RmsPropArguments arguments_;
  double decay_;
};

std::unique_ptr<const Optimizer> make_rmsprop(const TrainingConfig& c, const SettingsText& tree) {
  return std::make_unique<RmsPropOptimizer>(optim_args_of<RmsPropArguments>(c, tree), c.weight_decay);
}

}  // namespace

const OptimizerKind optimizers::kRmsProp{.name = "rmsprop", .make = make_rmsprop};

}  // namespace ft
