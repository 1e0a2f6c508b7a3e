// What the tokens of answers are worth to proximal policy optimization (Schulman et al. 2017), as step 3 of
// DeepSpeed-Chat has it: a token's reward is the KL to the reference that it adds, negative, a last token's
// also the answer's score; generalized advantage estimation (Schulman et al. 2016) spreads them over tokens.
#pragma once
#include <span>
#include <vector>

#include "engine/train/objectives/config.h"

namespace ft {

// An answer, by its tokens. Without any it is worth nothing.
struct Trajectory {
  double score = 0;                         // what rewarded it
  std::vector<double> logps;                // of the policy that gave it
  std::vector<double> reference;            // of the reference; empty: there is none
  std::vector<double> values;               // what the critic expected before each token
  std::vector<double> advantages, returns;  // see evaluate()

  double kl() const;  // sum of log p - log p of the reference
};

// Fills advantages and returns, of all answers of a generation: with score s, clip c, KL weight k
//   r(t) = -k (logp(t) - reference(t)), r(last) += clip(s, -c, c)
//   delta(t) = r(t) + gamma v(t + 1) - v(t), v behind the last is 0
//   A(t) = delta(t) + gamma lambda A(t + 1); return(t) = A(t) + v(t)
// whiten_rewards: r are divided by their deviation, of all tokens, but keep their mean. whiten_advantages: A,
// after returns, to mean 0 and deviation 1. (Variances with n - 1, plus 1e-8, as in TRL.)
void evaluate(std::span<Trajectory>, const ObjectiveConfig&);

// What PPO maximises in an answer as a whole: clip(score) - k kl().
double worth_of(const Trajectory&, const ObjectiveConfig&);

}  // namespace ft
