// Lion (Chen et al., "Symbolic discovery of optimization algorithms", NeurIPS 2023), as bitsandbytes' and so
// transformers' `optim=lion`: its betas are adam_beta1 and adam_beta2. With states in 8 bits as
// bitsandbytes' Lion8bit.
#include <array>

#include "engine/ops/ops.h"
#include "engine/train/optimizers/arguments.h"
#include "engine/train/optimizers/coding.h"
#include "engine/train/optimizers/list.h"
#include "engine/train/optimizers/optimizer.h"

namespace ft {
namespace {

class LionOptimizer final : public Optimizer {
 public:
  LionOptimizer(const TrainingConfig& c, const Coding& coding)
      : coding_(coding), betas_{c.adam_beta1, c.adam_beta2}, decay_(c.weight_decay) {}
  std::span<const StateSpec> states(const Parameter& p) const override {
    return codes(coding_, p) ? std::span<const StateSpec>(kCoded) : kStates;
  }
  void step(Ops& ops, const FlatRun& r, const StepScalars& s) const override {
    const Betas betas = s.betas.value_or(betas_);
    ops.run(op::Lion{.master = r.master,
                     .value = r.value,
                     .m = r.states[0],
                     .m_largest = r.states.size() == kCoded.size() ? r.states[1] : Tensor{},
                     .grad = r.grad,
                     .lr = s.rate,
                     .beta1 = betas.beta1,
                     .beta2 = betas.beta2,
                     .decay = r.decay(decay_),
                     .grad_scale = static_cast<float>(s.grad_scale)});
  }

 private:
  static constexpr std::array<StateSpec, 1> kStates{{{.name = "exp_avg"}}};
  static constexpr std::array<StateSpec, 2> kCoded{coded_state("exp_avg"),
                                                   largest_of_coded("exp_avg_absmax")};
  Coding coding_;
  Betas betas_;
  double decay_;
};

std::unique_ptr<const Optimizer> make_lion(const TrainingConfig& c, const SettingsText& tree) {
  optim_args_of<NoArguments>(c, tree);
  return std::make_unique<LionOptimizer>(c, Coding{});
}

std::unique_ptr<const Optimizer> make_lion_8bit(const TrainingConfig& c, const SettingsText& tree) {
  return std::make_unique<LionOptimizer>(c, optim_args_of<CodingArguments>(c, tree));
}

}  // namespace

constexpr OptimizerKind optimizers::kLion{
    .name = "lion", .synonyms = {"lion_32bit"}, .make = make_lion, .betas = true};
constexpr OptimizerKind optimizers::kLion8bit{
    .name = "lion_8bit", .make = make_lion_8bit, .betas = true, .coded = true};
constexpr OptimizerKind optimizers::kPagedLion = paged(kLion, "paged_lion_32bit", "paged_lion");
constexpr OptimizerKind optimizers::kPagedLion8bit = paged(kLion8bit, "paged_lion_8bit");

}  // namespace ft
