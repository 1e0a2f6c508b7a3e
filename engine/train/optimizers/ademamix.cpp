// AdEMAMix (Pagliardini et al., "The AdEMAMix optimizer: better, faster, older", ICLR 2025), as bitsandbytes'
// and so transformers' `optim=ademamix`: AdamW with a second, slower mean of the gradients. Its first two
// betas and eps are adam_beta1, adam_beta2 and adam_epsilon. With states in 8 bits as bitsandbytes'
// AdEMAMix8bit.
#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "engine/ops/ops.h"
#include "engine/train/optimizers/arguments.h"
#include "engine/train/optimizers/coding.h"
#include "engine/train/optimizers/list.h"
#include "engine/train/optimizers/optimizer.h"

namespace ft {
namespace {

struct AdEMAMixArguments {
  double beta3 = 0.9999, alpha = 5;
  std::optional<std::int64_t> t_alpha, t_beta3;

  void fields(auto& f) {
    f("beta3", beta3, "Decay of the slow mean of gradients.", at_least(0), below(1));
    f("alpha", alpha, "Weight of the slow mean in the update; the fast mean has 1.", at_least(0));
    f("t_alpha", t_alpha, "Steps in which alpha rises from 0; null: none.", at_least(1));
    f("t_beta3", t_beta3, "Steps in which beta3 rises from adam_beta1; null: none.", at_least(1));
  }
  double alpha_at(std::int64_t step) const {
    return t_alpha ? alpha * std::min(1.0, double(step) / double(*t_alpha)) : alpha;
  }
  // The half-life of the mean rises linearly: the logarithm's inverse goes from beta1's to beta3's.
  double beta3_at(std::int64_t step, double beta1) const {
    if (!t_beta3) return beta3;
    const double passed = std::min(1.0, double(step) / double(*t_beta3));
    return std::min(beta3, std::exp(1 / ((1 - passed) / std::log(beta1) + passed / std::log(beta3))));
  }
};

struct CodedAdEMAMixArguments : AdEMAMixArguments, CodingArguments {
  void fields(auto& f) {
    AdEMAMixArguments::fields(f);
    CodingArguments::fields(f);
  }
};

class AdEMAMixOptimizer final : public Optimizer {
 public:
  AdEMAMixOptimizer(const TrainingConfig& c, const AdEMAMixArguments& a, const Coding& coding)
      : arguments_(a),
        coding_(coding),
        betas_{c.adam_beta1, c.adam_beta2},
        eps_(c.adam_epsilon),
        decay_(c.weight_decay) {}
  std::span<const StateSpec> states(const Parameter& p) const override {
    return codes(coding_, p) ? std::span<const StateSpec>(kCoded) : kStates;
  }
  void step(Ops& ops, const FlatRun& r, const StepScalars& s) const override {
    const Betas betas = s.betas.value_or(betas_);
    const bool coded = r.states.size() == kCoded.size();
    ops.run(op::AdEMAMix{.master = r.master,
                         .value = r.value,
                         .m = r.states[0],
                         .slow = r.states[1],
                         .v = r.states[2],
                         .m_largest = coded ? r.states[3] : Tensor{},
                         .slow_largest = coded ? r.states[4] : Tensor{},
                         .v_largest = coded ? r.states[5] : Tensor{},
                         .grad = r.grad,
                         .lr = s.rate,
                         .beta1 = betas.beta1,
                         .beta2 = betas.beta2,
                         .beta3 = arguments_.beta3_at(s.step, betas.beta1),
                         .alpha = arguments_.alpha_at(s.step),
                         .eps = eps_,
                         .decay = r.decay(decay_),
                         .grad_scale = static_cast<float>(s.grad_scale),
                         .step = s.step});
  }

 private:
  static constexpr std::array<StateSpec, 3> kStates{
      {{.name = "exp_avg_fast"}, {.name = "exp_avg_slow"}, {.name = "exp_avg_sq"}}};
  static constexpr std::array<StateSpec, 6> kCoded{coded_state("exp_avg_fast"),
                                                   coded_state("exp_avg_slow"),
                                                   coded_state("exp_avg_sq"),
                                                   largest_of_coded("exp_avg_fast_absmax"),
                                                   largest_of_coded("exp_avg_slow_absmax"),
                                                   largest_of_coded("exp_avg_sq_absmax")};
  AdEMAMixArguments arguments_;
  Coding coding_;
  Betas betas_;
  double eps_, decay_;
};

std::unique_ptr<const Optimizer> make_ademamix(const TrainingConfig& c, const SettingsText& tree) {
  return std::make_unique<AdEMAMixOptimizer>(c, optim_args_of<AdEMAMixArguments>(c, tree), Coding{});
}

std::unique_ptr<const Optimizer> make_ademamix_8bit(const TrainingConfig& c, const SettingsText& tree) {
  const auto arguments = optim_args_of<CodedAdEMAMixArguments>(c, tree);
  return std::make_unique<AdEMAMixOptimizer>(c, arguments, arguments);
}

}  // namespace

constexpr OptimizerKind optimizers::kAdEMAMix{.name = "ademamix", .make = make_ademamix, .betas = true};
constexpr OptimizerKind optimizers::kAdEMAMix8bit{
    .name = "ademamix_8bit", .make = make_ademamix_8bit, .betas = true, .coded = true};
constexpr OptimizerKind optimizers::kPagedAdEMAMix = paged(kAdEMAMix, "paged_ademamix_32bit");
constexpr OptimizerKind optimizers::kPagedAdEMAMix8bit = paged(kAdEMAMix8bit, "paged_ademamix_8bit");

}  // namespace ft
