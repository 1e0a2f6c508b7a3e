// Importance weights of answers that another program has generated (Yao et al. 2025, "Your efficient RL
// framework secretly brings you off-policy RL training"). With log p of the policy at the time and log q of
// the program that chose the tokens, a token's ratio is exp(log p - log q), an answer's the product of its
// tokens' ratios. A ratio outside of [min, max] becomes 0 (mask) or the nearest bound (truncate). Each
// token's loss, without its KL to the reference, is multiplied by its weight. Formulas, defaults and columns
// are those of TRL's GRPOTrainer.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "engine/train/objectives/rollout_server.h"
#include "engine/train/reports/report.h"

namespace ft {

// Log-probabilities of a generated answer's tokens, under the policy and under the program that chose them.
struct SampledLogps {
  std::span<const double> policy, sampled;
};

// Returns the weights of an answer's tokens. Requires a correction other than none.
std::vector<double> correction_weights(const RolloutServerSettings&, const SampledLogps&);

// Names of the columns, and their figures over the trained answers of a generation: the differences of
// log-probabilities of tokens, without signs; the weights, of answers or of tokens.
std::vector<std::string> correction_columns();
Measures correction_figures(const RolloutServerSettings&, std::span<const SampledLogps>);

}  // namespace ft
