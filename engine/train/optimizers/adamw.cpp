// AdamW (Loshchilov, Hutter, "Decoupled weight decay regularization", ICLR 2019), as torch.optim.AdamW;
// without adam_w_mode, DeepSpeed's word, torch.optim.Adam. With states in 8 bits as bitsandbytes' AdamW8bit.
#include <array>

#include "engine/ops/ops.h"
#include "engine/train/optimizers/arguments.h"
#include "engine/train/optimizers/coding.h"
#include "engine/train/optimizers/list.h"
#include "engine/train/optimizers/optimizer.h"

namespace ft {
namespace {

class AdamWOptimizer final : public Optimizer {
 public:
  AdamWOptimizer(const TrainingConfig& c, const Coding& coding)
      : coding_(coding),
        betas_{c.adam_beta1, c.adam_beta2},
        eps_(c.adam_epsilon),
        decay_(c.weight_decay),
        decoupled_(c.adam_w_mode) {}
  std::span<const StateSpec> states(const Parameter& p) const override {
    return codes(coding_, p) ? std::span<const StateSpec>(kCoded) : kStates;
  }
  void step(Ops& ops, const FlatRun& r, const StepScalars& s) const override {
    const Betas betas = s.betas.value_or(betas_);
    const bool coded = r.states.size() == kCoded.size();
    ops.run(op::AdamW{.master = r.master,
                      .value = r.value,
                      .m = r.states[0],
                      .v = r.states[1],
                      .m_largest = coded ? r.states[2] : Tensor{},
                      .v_largest = coded ? r.states[3] : Tensor{},
                      .grad = r.grad,
                      .lr = s.rate,
                      .beta1 = betas.beta1,
                      .beta2 = betas.beta2,
                      .eps = eps_,
                      .decay = r.decay(decay_),
                      .grad_scale = static_cast<float>(s.grad_scale),
                      .step = s.step,
                      .decoupled = decoupled_});
  }

 private:
  static constexpr std::array<StateSpec, 2> kStates{{{.name = "exp_avg"}, {.name = "exp_avg_sq"}}};
  static constexpr std::array<StateSpec, 4> kCoded{coded_state("exp_avg"), coded_state("exp_avg_sq"),
                                                   largest_of_coded("exp_avg_absmax"),
                                                   largest_of_coded("exp_avg_sq_absmax")};
  Coding coding_;
  Betas betas_;
  double eps_, decay_;
  bool decoupled_;
};

std::unique_ptr<const Optimizer> make_adamw(const TrainingConfig& c, const SettingsText& tree) {
  optim_args_of<NoArguments>(c, tree);
  return std::make_unique<AdamWOptimizer>(c, Coding{});
}

std::unique_ptr<const Optimizer> make_adamw_8bit(const TrainingConfig& c, const SettingsText& tree) {
  return std::make_unique<AdamWOptimizer>(c, optim_args_of<CodingArguments>(c, tree));
}

}  // namespace

constexpr OptimizerKind optimizers::kAdamW{
    .name = "adamw", .synonyms = {"adamw_torch", "adamw_torch_fused"}, .make = make_adamw, .betas = true};
constexpr OptimizerKind optimizers::kAdamW8bit{.name = "adamw_8bit",
                                               .synonyms = {"adamw_bnb_8bit"},
                                               .make = make_adamw_8bit,
                                               .betas = true,
                                               .coded = true};
constexpr OptimizerKind optimizers::kPagedAdamW = paged(kAdamW, "paged_adamw_32bit", "paged_adamw");
constexpr OptimizerKind optimizers::kPagedAdamW8bit = paged(kAdamW8bit, "paged_adamw_8bit");

}  // namespace ft
