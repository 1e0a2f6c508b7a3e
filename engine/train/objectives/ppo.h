// Values of the tokens of answers in proximal policy optimization (Schulman et al. 2017), as in step 3 of
// DeepSpeed-Chat. A token's reward is its negative KL to the reference; the last token's reward includes the
// answer's score. Generalized advantage estimation (Schulman et al. 2016) distributes the rewards over the
// tokens.
#pragma once
#include <span>
#include <vector>

#include "engine/train/objectives/config.h"

namespace ft {

// An answer, by token. An answer without tokens has value 0.
struct Trajectory {
  double score = 0;                         // reward of the answer
  std::vector<double> logps;                // under the policy that generated it
  std::vector<double> reference;            // under the reference; empty: none
  std::vector<double> values;               // critic's prediction before each token
  std::vector<double> advantages, returns;  // see evaluate()

  double kl() const;  // sum of log p - log p of the reference
};

// Fills advantages and returns of all answers of a generation. With score s, clip c and KL weight k:
//   r(t) = -k (logp(t) - reference(t)), r(last) += clip(s, -c, c)
//   delta(t) = r(t) + gamma v(t + 1) - v(t), v after the last token is 0
//   A(t) = delta(t) + gamma lambda A(t + 1); return(t) = A(t) + v(t)
// whiten_rewards: r is divided by its deviation over all tokens, but keeps its mean. whiten_advantages: A
// gets mean 0 and deviation 1, after the returns are computed. (Variances with n - 1, plus 1e-8, as in TRL.)
void evaluate(std::span<Trajectory>, const ObjectiveConfig&);

// Returns the value of a complete answer that PPO maximises: clip(score) - k kl().
double worth_of(const Trajectory&, const ObjectiveConfig&);

}  // namespace ft
