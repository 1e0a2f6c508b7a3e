// Settings under `objective`: the loss that a run minimises. Names and defaults are TRL's; check.cpp tells
// which type has which setting.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/core/rules.h"

namespace ft {

enum class ObjectiveType : std::uint8_t { sft, dpo, kto, orpo, cpo, simpo, reward, distill, grpo, ppo };
constexpr auto words(ObjectiveType) {
  using enum ObjectiveType;
  return to_words<ObjectiveType>({{sft, "sft"},
                                  {dpo, "dpo"},
                                  {kto, "kto"},
                                  {orpo, "orpo"},
                                  {cpo, "cpo"},
                                  {simpo, "simpo"},
                                  {reward, "reward"},
                                  {distill, "distill"},
                                  {grpo, "grpo"},
                                  {ppo, "ppo"}});
}

// Loss types of dpo, kto, cpo, distill and grpo, in this order.
enum class LossType : std::uint8_t {
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
  sft,
  kto,
  apo_zero_unpaired,
  simpo,
  alphapo,
  jsd,
  kd,
  dapo,
  grpo,
  bnpo,
  dr_grpo
};
constexpr auto words(LossType) {
  using enum LossType;
  return to_words<LossType>({{sigmoid, "sigmoid"},
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
                             {sft, "sft"},
                             {kto, "kto"},
                             {apo_zero_unpaired, "apo_zero_unpaired"},
                             {simpo, "simpo"},
                             {alphapo, "alphapo"},
                             {jsd, "jsd"},
                             {kd, "kd"},
                             {dapo, "dapo"},
                             {grpo, "grpo"},
                             {bnpo, "bnpo"},
                             {dr_grpo, "dr_grpo"}});
}

// Divisor of the difference between an answer's reward and its group's mean.
enum class ScaleRewards : std::uint8_t { group, batch, none };
constexpr auto words(ScaleRewards) {
  using enum ScaleRewards;
  return to_words<ScaleRewards>({{group, "group"}, {batch, "batch"}, {none, "none"}});
}

// Checks of an answer, see app/rollouts/checks.h.
enum class RewardCheck : std::uint8_t { exact_match, number, regex, length };
constexpr auto words(RewardCheck) {
  using enum RewardCheck;
  return to_words<RewardCheck>(
      {{exact_match, "exact_match"}, {number, "number"}, {regex, "regex"}, {length, "length"}});
}

enum class SamplingLevel : std::uint8_t { token, sequence };
constexpr auto words(SamplingLevel) {
  using enum SamplingLevel;
  return to_words<SamplingLevel>({{token, "token"}, {sequence, "sequence"}});
}

enum class FDivergence : std::uint8_t { reverse_kl, forward_kl, js_divergence, alpha_divergence };
constexpr auto words(FDivergence) {
  using enum FDivergence;
  return to_words<FDivergence>({{reverse_kl, "reverse_kl"},
                                {forward_kl, "forward_kl"},
                                {js_divergence, "js_divergence"},
                                {alpha_divergence, "alpha_divergence"}});
}

// Settings of all types. An empty optional means the type's default.
struct ObjectiveConfig {
  static constexpr double kUsualKl = 0.1;  // default of ppo
  ObjectiveType type = ObjectiveType::sft;
  std::vector<LossType> loss_type;
  std::vector<double> loss_weights;
  std::optional<double> beta, label_smoothing, ld_alpha, f_alpha_divergence_coef, discopop_tau;
  std::optional<FDivergence> f_divergence_type;
  std::optional<bool> use_weighting, precompute_ref_log_probs;
  std::optional<std::string> ref_model_name_or_path;
  std::optional<double> desirable_weight, undesirable_weight;
  std::optional<double> cpo_alpha, alpha, simpo_gamma;
  std::optional<double> center_rewards_coefficient;
  std::optional<std::string> teacher_model_name_or_path, teacher_file;
  std::optional<double> temperature;
  std::optional<std::int64_t> num_generations, num_iterations, max_completion_length;
  std::optional<double> epsilon, epsilon_high, delta;
  std::optional<ScaleRewards> scale_rewards;
  std::optional<SamplingLevel> importance_sampling_level;
  std::optional<bool> use_bias_correction_kl;
  std::vector<RewardCheck> reward_funcs;
  std::optional<std::string> reward_regex, reward_command, reward_model_name_or_path;
  std::optional<double> reward_timeout;
  std::vector<double> reward_weights;
  std::optional<std::int64_t> soft_punish_cache, steps_per_generation, top_k;
  std::optional<double> top_p, min_p, repetition_penalty;
  std::optional<bool> mask_truncated_completions;
  std::optional<std::int64_t> num_generations_eval;
  std::optional<std::string> value_model_name_or_path;
  std::optional<double> critic_learning_rate, kl_coef, cliprange, cliprange_value, cliprange_reward, gamma,
      lam;
  std::optional<bool> whiten_rewards, whiten_advantages;

  bool distills() const { return type == ObjectiveType::distill; }
  // Returns true if the data holds answers to compare, not examples.
  bool compares() const { return type != ObjectiveType::sft && !distills(); }
  // Returns true if the run generates its answers, because it has rewards for them.
  bool generates() const {
    return type == ObjectiveType::ppo || (type == ObjectiveType::grpo && rewards() > 0);
  }
  // Returns the number of answers to one prompt.
  std::int64_t group() const { return type == ObjectiveType::ppo ? 1 : num_generations.value_or(8); }
  std::int64_t group_eval() const { return num_generations_eval.value_or(group()); }
  std::size_t rewards() const {
    return reward_funcs.size() + (reward_command ? 1 : 0) + (reward_model_name_or_path ? 1 : 0);
  }
  // Returns the longest answer, in tokens.
  std::int64_t answer_length() const { return max_completion_length.value_or(512); }
  bool has_reference() const {
    using enum ObjectiveType;
    return type == dpo || type == kto || (type == grpo && beta.value_or(0) > 0) ||
           (type == ppo && kl_coef.value_or(kUsualKl) > 0);
  }

  void fields(auto& f) {
    f("type", type,
      "What to minimise: the cross-entropy of examples (sft), or what answers that people compared ask for "
      "(docs/preferences.md).");
    f("loss_type", loss_type,
      "dpo: one or several of sigmoid (the default), hinge, ipo, robust, exo_pair, nca_pair, bco_pair, "
      "sppo_hard, aot, aot_unpaired, apo_zero, apo_down, discopop, sigmoid_norm and sft, which are added up; "
      "kto: kto or apo_zero_unpaired; cpo: sigmoid, hinge, ipo, simpo or alphapo; distill: jsd or kd; grpo: "
      "dapo "
      "(the default), grpo, bnpo or dr_grpo.",
      or_one(), or_null());
    f("loss_weights", loss_weights, "dpo: a weight for each loss_type; null: all are 1.", or_null());
    f("beta", beta,
      "How far the policy may leave the reference, or the scale of log-probabilities; null: 0.1. grpo: "
      "weight of "
      "the KL to the reference; null: 0, none. distill: between forward KL (0) and reverse KL (1); null: "
      "0.5.",
      at_least(0));
    f("label_smoothing", label_smoothing,
      "Share of preferences taken as wrong: of robust, exo_pair and aot, and of cpo; null: 0.", at_least(0),
      at_most(1));
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
    f("ref_model_name_or_path", ref_model_name_or_path,
      "dpo, kto, grpo, ppo: folder or id of the reference model; null: the policy as the run began.",
      is_path_or_hub_id(), not_empty());
    f("desirable_weight", desirable_weight, "kto: weight of desired answers; null: 1.", at_least(0));
    f("undesirable_weight", undesirable_weight, "kto: weight of the others; null: 1.", at_least(0));
    f("cpo_alpha", cpo_alpha, "cpo: weight of the chosen answers' cross-entropy; null: 1.", at_least(0));
    f("alpha", alpha,
      "cpo, simpo: AlphaPO's reward shape; null: 0, the log-probability itself. distill, kd: weight of the "
      "cross-entropy; null: 0.5.");
    f("simpo_gamma", simpo_gamma, "simpo, and cpo with simpo: the margin, divided by beta; null: 0.5.",
      at_least(0));
    f("center_rewards_coefficient", center_rewards_coefficient,
      "reward: weight of the squared sum of a pair's scores; null: 0.", at_least(0));
    f("teacher_model_name_or_path", teacher_model_name_or_path,
      "distill: folder or id of the model to learn from, with the same vocabulary.", is_path_or_hub_id(),
      not_empty());
    f("teacher_file", teacher_file,
      "distill: file of what a teacher says of the data, made with ft teach, in place of the teacher.",
      is_path(), not_empty());
    f("temperature", temperature, "distill, grpo, ppo: what logits are divided by; null: 1.", above(0));
    grpo_fields(f);
  }
  void grpo_fields(auto& f) {
    f("num_generations", num_generations, "grpo: answers to one prompt, which lie together; null: 8.",
      at_least(2));
    f("num_iterations", num_iterations, "grpo, ppo: steps in a row with the same answers; null: 1.",
      at_least(1));
    f("max_completion_length", max_completion_length,
      "grpo, ppo: longest answer that is generated, in tokens, and what dr_grpo divides a row's sum by; "
      "null: 512.",
      at_least(1));
    f("epsilon", epsilon, "grpo: how far below 1 a ratio to the old policy counts; null: 0.2.", at_least(0));
    f("epsilon_high", epsilon_high, "grpo: how far above 1; null: epsilon.", at_least(0));
    f("delta", delta, "grpo: the largest ratio that counts for any answer; null: none.", above(0));
    f("scale_rewards", scale_rewards,
      "grpo: advantages are divided by the deviation of their group's rewards (group, the default), of the "
      "step's (batch), or not (none).");
    f("importance_sampling_level", importance_sampling_level,
      "grpo: a ratio for each token (null), or the mean of a sequence's (GSPO).");
    f("use_bias_correction_kl", use_bias_correction_kl, "grpo: multiply the KL by the ratio; null: true.");
    f("reward_funcs", reward_funcs,
      "grpo, ppo: what rewards answers that are generated: exact_match or number (1 where the answer is the "
      "row's), "
      "regex (1 where reward_regex matches), length (below 0 for answers that come near "
      "max_completion_length).",
      or_one(), or_null());
    f("reward_command", reward_command,
      "grpo, ppo: a program that rewards answers that are generated, as a shell would start it; it reads and "
      "writes "
      "lines of JSON (docs/preferences.md).",
      not_empty());
    f("reward_timeout", reward_timeout,
      "grpo, ppo, reward_command: most seconds that it may take to its next reward; null: 60.", above(0));
    f("reward_model_name_or_path", reward_model_name_or_path,
      "grpo, ppo: folder or id of a reward model that scores answers that are generated, with the same "
      "vocabulary.",
      is_path_or_hub_id(), not_empty());
    f("reward_regex", reward_regex, "grpo, ppo, regex: what an answer is to contain.", not_empty());
    f("soft_punish_cache", soft_punish_cache,
      "grpo, ppo, length: tokens before max_completion_length in which the reward falls from 0 to -1.",
      at_least(1));
    f("reward_weights", reward_weights,
      "grpo, ppo: a weight for each of reward_funcs, for reward_command and for the reward model, in this "
      "order; "
      "null: all are 1.",
      or_null());
    f("steps_per_generation", steps_per_generation,
      "grpo, ppo: micro-batches of a rank that are generated at once; null: those of a step.", at_least(1));
    f("mask_truncated_completions", mask_truncated_completions,
      "grpo: do not train on answers that max_completion_length cut; null: false.");
    f("top_k", top_k, "grpo, ppo: generate only from the k likeliest tokens; null or 0: from all.",
      at_least(0));
    f("top_p", top_p,
      "grpo, ppo: generate only from the likeliest tokens that make up this probability; null: 1.", above(0),
      at_most(1));
    f("min_p", min_p,
      "grpo, ppo: generate only from tokens at least this likely, relative to the likeliest; null: all.",
      at_least(0), at_most(1));
    f("repetition_penalty", repetition_penalty,
      "grpo, ppo: above 1, tokens that already occurred become less likely; null: 1.", above(0));
    f("num_generations_eval", num_generations_eval,
      "grpo: answers to one prompt in evaluations; null: num_generations.", at_least(1));
    ppo_fields(f);
  }
  void ppo_fields(auto& f) {
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

// Returns the number of sequences in a row of a micro-batch: a pair has two.
inline std::int64_t sequences_of_row(const ObjectiveConfig& c) {
  using enum ObjectiveType;
  return c.compares() && c.type != kto && c.type != grpo && c.type != ppo ? 2 : 1;
}

// Checks rules between an objective's settings; refuse throws.
void check(const ObjectiveConfig&, const std::function<void(const std::string&)>& refuse);

}  // namespace ft
