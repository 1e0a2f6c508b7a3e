// 1-bit Adam (Tang et al., "1-bit Adam: communication efficient large-scale training with Adam's
// convergence speed", ICML 2021), as DeepSpeed's OneBitAdam computes it. Before step freeze_step it is Adam
// without bias correction, with decoupled decay. From then on the second moment stays, and the first is the
// mean of the ranks' first moments, each with the rank's own gradient; they send signs (sign_sum.h). A rank
// alone sends nothing, so its first moment is exact.
#include <array>

#include "engine/ops/ops.h"
#include "engine/train/optimizers/arguments.h"
#include "engine/train/optimizers/list.h"
#include "engine/train/optimizers/optimizer.h"
#include "engine/zero/sign_sum.h"

namespace ft {
namespace {

struct OneBitArguments {
  std::int64_t freeze_step = 100000;

  void fields(auto& f) {
    f("freeze_step", freeze_step, "The first step that sends signs; the steps before it are the warm-up.",
      at_least(2));
  }
};

enum State : std::size_t { kMoment, kVariance, kWorkerError, kServerError };

class OneBitAdam final : public Optimizer {
 public:
  OneBitAdam(const TrainingConfig& c, const OneBitArguments& a)
      : betas_{c.adam_beta1, c.adam_beta2},
        eps_(c.adam_epsilon),
        decay_(c.weight_decay),
        freeze_step_(a.freeze_step) {}

  std::span<const StateSpec> states(const Parameter&) const override { return kStates; }
  std::int64_t own_from() const override { return freeze_step_; }
  void step(Ops&, const FlatRun&, const StepScalars&) const override {}

  void step_together(Ops& ops, std::span<const CompleteSlice> all, const StepScalars& s, Arena& scratch,
                     Communicator& ranks) const override {
    const Betas betas = s.betas.value_or(betas_);
    const auto grad_scale = static_cast<float>(s.grad_scale * (takes_own(*this, s.step) ? ranks.size() : 1));
    const bool signs = takes_own(*this, s.step) && ranks.size() > 1;
    for (const CompleteSlice& w : all)
      ops.run(op::FirstMoment{.y = flat(w.states[signs ? kWorkerError : kMoment]),
                              .m = flat(w.states[kMoment]),
                              .grad = w.complete_grad,
                              .beta = betas.beta1,
                              .grad_scale = grad_scale,
                              .adds = signs});
    if (signs) {
      std::vector<SignSum> sums;
      for (const CompleteSlice& w : all)
        sums.push_back({flat(w.states[kMoment]), flat(w.states[kWorkerError]), w.states[kServerError]});
      sum_signs(ops, ranks, sums, scratch);
    }
    for (const CompleteSlice& w : all)
      if (w.count > 0)
        ops.run(op::PlainAdam{.master = w.master,
                              .v = w.states[kVariance],
                              .m = flat(w.states[kMoment]).elements(w.first, w.count),
                              .grad = takes_own(*this, s.step) ? Tensor{} : w.grad,
                              .lr = by_rule(s, w.parameter->rule).rate,
                              .beta2 = betas.beta2,
                              .eps = eps_,
                              .decay = w.decay(decay_),
                              .grad_scale = grad_scale});
  }

 private:
  static Tensor flat(const Tensor& t) { return t.view({t.numel()}); }
  static constexpr std::array<StateSpec, 4> kStates{
      {{.name = "exp_avg", .kept = Kept::complete, .complete_gradient = true},
       {.name = "exp_avg_sq"},
       {.name = "worker_error", .kept = Kept::own},
       {.name = "server_error", .kept = Kept::shares}}};

  Betas betas_;
  double eps_, decay_;
  std::int64_t freeze_step_;
};

std::unique_ptr<const Optimizer> make_onebit_adam(const TrainingConfig& c, const SettingsText& tree) {
  return std::make_unique<OneBitAdam>(c, optim_args_of<OneBitArguments>(c, tree));
}

}  // namespace

// Signs take the place of sums of gradients, which are complete then.
const OptimizerKind optimizers::kOneBitAdam{
    .name = "onebit_adam", .make = make_onebit_adam, .betas = true, .complete = true, .last_stage = 1};

}  // namespace ft
