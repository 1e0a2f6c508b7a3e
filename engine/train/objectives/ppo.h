// Settings of proximal policy optimization (Schulman et al. 2017), and the values of the tokens of answers,
// as in step 3 of DeepSpeed-Chat. A token's reward is its negative KL to the reference; the last token's
// reward includes the answer's score. Generalized advantage estimation (Schulman et al. 2016) distributes the
// rewards over the tokens.
#pragma once
#include <optional>
#include <span>
#include <string>

#include "engine/core/rules.h"

namespace ft {

struct Trajectory;

struct PpoSettings {
  std::optional<std::string> value_model_name_or_path;
  std::optional<double> critic_learning_rate, kl_coef, cliprange, cliprange_value, cliprange_reward, gamma,
      lam;
  std::optional<bool> whiten_rewards, whiten_advantages;

  double kl_weight() const { return kl_coef.value_or(0.1); }

  void fields(auto& f) {
    f("value_model_name_or_path", value_model_name_or_path,
      "ppo: folder or id of the model that the critic begins as, with the same vocabulary; a score that it "
      "does "
      "not have begins at random; null: the reward model, else the policy's.",
      is_path_or_hub_id(), not_empty());
    f("critic_learning_rate", critic_learning_rate,
      "ppo: the critic's learning rate, which follows the same schedule; null: training.learning_rate.",
      above(0));
    f("kl_coef", kl_coef, "ppo: weight of the KL to the reference in each token's reward; null: 0.1.",
      at_least(0));
    f("cliprange", cliprange, "ppo: how far from 1 a ratio to the old policy counts; null: 0.2.", above(0));
    f("cliprange_value", cliprange_value, "ppo: how far a value may move from the old critic's; null: 0.2.",
      above(0));
    f("cliprange_reward", cliprange_reward,
      "ppo: rewards of answers are cut to plus and minus this; null: 5.", above(0));
    f("gamma", gamma, "ppo: what a reward one token later is worth; null: 1.", at_least(0), at_most(1));
    f("lam", lam, "ppo: lambda of the generalized advantage estimation; null: 0.95.", at_least(0),
      at_most(1));
    f("whiten_rewards", whiten_rewards,
      "ppo: divide the rewards of a generation's tokens by their deviation; null: false.");
    f("whiten_advantages", whiten_advantages,
      "ppo: bring the advantages of a generation's tokens to mean 0 and deviation 1; null: false.");
  }
};

// Fills advantages and returns of all answers of a generation. With score s, clip c and KL weight k:
//   r(t) = -k (logp(t) - reference(t)), r(last) += clip(s, -c, c)
//   delta(t) = r(t) + gamma v(t + 1) - v(t), v after the last token is 0
//   A(t) = delta(t) + gamma lambda A(t + 1); return(t) = A(t) + v(t)
// whiten_rewards: r is divided by its deviation over all tokens, but keeps its mean. whiten_advantages: A
// gets mean 0 and deviation 1, after the returns are computed. (Variances with n - 1, plus 1e-8, as in TRL.)
void evaluate(std::span<Trajectory>, const PpoSettings&);

// Returns the value of a complete answer that PPO maximises: clip(score) - k kl().
double worth_of(const Trajectory&, const PpoSettings&);

}  // namespace ft
