// Settings of direct preference optimization.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "engine/core/rules.h"

namespace ft {

enum class DpoLoss : std::uint8_t {
  sigmoid,
  hinge,
  ipo,
  robust,
  exo_pair,
  nca_pair,
  bco_pair,
  sppo_hard,
  aot,
  aot_unpaired,
  apo_zero,
  apo_down,
  discopop,
  sigmoid_norm,
  sft
};
constexpr auto words(DpoLoss) {
  using enum DpoLoss;
  return to_words<DpoLoss>({{sigmoid, "sigmoid"},
                            {hinge, "hinge"},
                            {ipo, "ipo"},
                            {robust, "robust"},
                            {exo_pair, "exo_pair"},
                            {nca_pair, "nca_pair"},
                            {bco_pair, "bco_pair"},
                            {sppo_hard, "sppo_hard"},
                            {aot, "aot"},
                            {aot_unpaired, "aot_unpaired"},
                            {apo_zero, "apo_zero"},
                            {apo_down, "apo_down"},
                            {discopop, "discopop"},
                            {sigmoid_norm, "sigmoid_norm"},
                            {sft, "sft"}});
}

enum class FDivergence : std::uint8_t { reverse_kl, forward_kl, js_divergence, alpha_divergence };
constexpr auto words(FDivergence) {
  using enum FDivergence;
  return to_words<FDivergence>({{reverse_kl, "reverse_kl"},
                                {forward_kl, "forward_kl"},
                                {js_divergence, "js_divergence"},
                                {alpha_divergence, "alpha_divergence"}});
}

struct LossWeights {
  std::vector<double> loss_weights;

  void fields(auto& f) {
    f("loss_weights", loss_weights, "dpo: a weight for each loss_type; null: all are 1.", or_null());
  }
};

struct DpoSettings {
  std::optional<double> ld_alpha, f_alpha_divergence_coef, discopop_tau;
  std::optional<FDivergence> f_divergence_type;
  std::optional<bool> use_weighting, precompute_ref_log_probs;

  void fields(auto& f) {
    f("ld_alpha", ld_alpha,
      "dpo: weight of the tokens by which one answer is longer than the other; null: 1.", at_least(0),
      at_most(1));
    f("f_divergence_type", f_divergence_type, "dpo: the divergence from the reference; null: reverse_kl.");
    f("f_alpha_divergence_coef", f_alpha_divergence_coef, "dpo, alpha_divergence: its alpha; null: 0.5.");
    f("discopop_tau", discopop_tau, "dpo, discopop: the temperature of its blend; null: 0.05.", above(0));
    f("use_weighting", use_weighting,
      "dpo: weigh each pair by how likely the policy is to write it (WPO); null: false.");
    f("precompute_ref_log_probs", precompute_ref_log_probs,
      "dpo: compute the reference once before training, so that no copy of it is held, and keep its numbers "
      "in a file; null: false.");
  }
};

}  // namespace ft
