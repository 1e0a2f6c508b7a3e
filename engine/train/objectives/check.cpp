// Checks the settings of each objective type, and rules between them.
#include <algorithm>
#include <initializer_list>

#include "engine/core/error.h"
#include "engine/train/objectives/config.h"

namespace ft {
namespace {

using Refuse = std::function<void(const std::string&)>;
using Types = std::initializer_list<ObjectiveType>;

bool has(const auto& list, const auto& value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

std::string joined(const auto& values) {
  std::string all;
  for (const auto& v : values) all += (all.empty() ? "" : ", ") + std::string(name_of(v));
  return all;
}

void check_settings_of_type(const ObjectiveConfig& c, const Refuse& refuse) {
  using enum ObjectiveType;
  struct Setting {
    const char* name;
    bool given;
    Types types;
  };
  const Setting settings[] = {
      {"loss_type", !c.loss_type.empty(), {dpo, kto, cpo, distill, grpo}},
      {"loss_weights", !c.loss_weights.empty(), {dpo}},
      {"beta", c.beta.has_value(), {dpo, kto, orpo, cpo, simpo, distill, grpo}},
      {"label_smoothing", c.label_smoothing.has_value(), {dpo, cpo, simpo}},
      {"ld_alpha", c.ld_alpha.has_value(), {dpo}},
      {"f_divergence_type", c.f_divergence_type.has_value(), {dpo}},
      {"f_alpha_divergence_coef", c.f_alpha_divergence_coef.has_value(), {dpo}},
      {"discopop_tau", c.discopop_tau.has_value(), {dpo}},
      {"use_weighting", c.use_weighting.has_value(), {dpo}},
      {"precompute_ref_log_probs", c.precompute_ref_log_probs.has_value(), {dpo}},
      {"ref_model_name_or_path", c.ref_model_name_or_path.has_value(), {dpo, kto, grpo, ppo}},
      {"desirable_weight", c.desirable_weight.has_value(), {kto}},
      {"undesirable_weight", c.undesirable_weight.has_value(), {kto}},
      {"cpo_alpha", c.cpo_alpha.has_value(), {cpo}},
      {"alpha", c.alpha.has_value(), {cpo, simpo, distill}},
      {"simpo_gamma", c.simpo_gamma.has_value(), {cpo, simpo}},
      {"center_rewards_coefficient", c.center_rewards_coefficient.has_value(), {reward}},
      {"teacher_model_name_or_path", c.teacher_model_name_or_path.has_value(), {distill}},
      {"teacher_file", c.teacher_file.has_value(), {distill}},
      {"temperature", c.temperature.has_value(), {distill, grpo, ppo}},
      {"num_generations", c.num_generations.has_value(), {grpo}},
      {"num_iterations", c.num_iterations.has_value(), {grpo, ppo}},
      {"max_completion_length", c.max_completion_length.has_value(), {grpo, ppo}},
      {"epsilon", c.epsilon.has_value(), {grpo}},
      {"epsilon_high", c.epsilon_high.has_value(), {grpo}},
      {"delta", c.delta.has_value(), {grpo}},
      {"scale_rewards", c.scale_rewards.has_value(), {grpo}},
      {"importance_sampling_level", c.importance_sampling_level.has_value(), {grpo}},
      {"use_bias_correction_kl", c.use_bias_correction_kl.has_value(), {grpo}},
      {"reward_funcs", !c.reward_funcs.empty(), {grpo, ppo}},
      {"reward_command", c.reward_command.has_value(), {grpo, ppo}},
      {"reward_model_name_or_path", c.reward_model_name_or_path.has_value(), {grpo, ppo}},
      {"reward_timeout", c.reward_timeout.has_value(), {grpo, ppo}},
      {"reward_regex", c.reward_regex.has_value(), {grpo, ppo}},
      {"reward_weights", !c.reward_weights.empty(), {grpo, ppo}},
      {"soft_punish_cache", c.soft_punish_cache.has_value(), {grpo, ppo}},
      {"steps_per_generation", c.steps_per_generation.has_value(), {grpo, ppo}},
      {"mask_truncated_completions", c.mask_truncated_completions.has_value(), {grpo}},
      {"top_k", c.top_k.has_value(), {grpo, ppo}},
      {"top_p", c.top_p.has_value(), {grpo, ppo}},
      {"min_p", c.min_p.has_value(), {grpo, ppo}},
      {"repetition_penalty", c.repetition_penalty.has_value(), {grpo, ppo}},
      {"num_generations_eval", c.num_generations_eval.has_value(), {grpo}},
      {"value_model_name_or_path", c.value_model_name_or_path.has_value(), {ppo}},
      {"critic_learning_rate", c.critic_learning_rate.has_value(), {ppo}},
      {"kl_coef", c.kl_coef.has_value(), {ppo}},
      {"cliprange", c.cliprange.has_value(), {ppo}},
      {"cliprange_value", c.cliprange_value.has_value(), {ppo}},
      {"cliprange_reward", c.cliprange_reward.has_value(), {ppo}},
      {"gamma", c.gamma.has_value(), {ppo}},
      {"lam", c.lam.has_value(), {ppo}},
      {"whiten_rewards", c.whiten_rewards.has_value(), {ppo}},
      {"whiten_advantages", c.whiten_advantages.has_value(), {ppo}}};
  for (const Setting& s : settings)
    if (s.given && !has(s.types, c.type))
      refuse(str("objective.", s.name, ": objective.type ", name_of(c.type),
                 " has no such setting; it is of ", joined(s.types)));
}

// Returns the losses of a type; the first is its default.
std::vector<LossType> losses_of(ObjectiveType type) {
  using enum LossType;
  if (type == ObjectiveType::kto) return {LossType::kto, apo_zero_unpaired};
  if (type == ObjectiveType::cpo) return {sigmoid, hinge, ipo, simpo, alphapo};
  if (type == ObjectiveType::distill) return {jsd, kd};
  if (type == ObjectiveType::grpo) return {dapo, LossType::grpo, bnpo, dr_grpo};
  return {sigmoid, hinge,        ipo,      robust,   exo_pair, nca_pair,     bco_pair, sppo_hard,
          aot,     aot_unpaired, apo_zero, apo_down, discopop, sigmoid_norm, sft};
}

void check_losses(const ObjectiveConfig& c, const Refuse& refuse) {
  const std::vector<LossType> known = losses_of(c.type);
  for (const LossType loss : c.loss_type)
    if (!has(known, loss))
      refuse(str("objective.loss_type: ", name_of(loss), " is not of objective.type ", name_of(c.type),
                 ", which has ", joined(known)));
  if (c.type != ObjectiveType::dpo && c.loss_type.size() > 1)
    refuse(str("objective.loss_type: objective.type ", name_of(c.type), " takes one, not a list"));
  const std::size_t losses = std::max<std::size_t>(1, c.loss_type.size());
  if (!c.loss_weights.empty() && c.loss_weights.size() != losses)
    refuse(str("objective.loss_weights: ", c.loss_weights.size(), " of them for ", losses,
               " objective.loss_type; give one for each"));
}

void check_dpo(const ObjectiveConfig& c, const Refuse& refuse) {
  using enum LossType;
  std::vector<LossType> losses = c.loss_type;
  if (losses.empty()) losses = {sigmoid};
  const auto uses = [&](std::initializer_list<LossType> any) {
    return std::any_of(losses.begin(), losses.end(), [&](LossType l) { return has(any, l); });
  };
  const double smoothing = c.label_smoothing.value_or(0);
  if (has(losses, exo_pair) && (smoothing <= 0 || smoothing >= 1))
    refuse("objective.label_smoothing: exo_pair needs one above 0 and below 1, such as 0.001");
  if (has(losses, robust) && smoothing >= 0.5)
    refuse(str("objective.label_smoothing: robust needs one below 0.5, it is ", smoothing));
  if (smoothing > 0 && !uses({robust, exo_pair, aot, aot_unpaired}))
    refuse(
        "objective.label_smoothing: has no effect without robust, exo_pair, aot or aot_unpaired in "
        "objective.loss_type");
  const FDivergence f = c.f_divergence_type.value_or(FDivergence::reverse_kl);
  for (const LossType loss : losses)
    if (f != FDivergence::reverse_kl &&
        !has(std::initializer_list<LossType>{sigmoid, sigmoid_norm, hinge, ipo, exo_pair, robust, discopop,
                                             sft},
             loss))
      refuse(str("objective.f_divergence_type: ", name_of(f), " is not for objective.loss_type ",
                 name_of(loss)));
  if (c.f_alpha_divergence_coef && f != FDivergence::alpha_divergence)
    refuse(
        "objective.f_alpha_divergence_coef: has no effect without objective.f_divergence_type="
        "alpha_divergence");
  if (c.discopop_tau && !has(losses, discopop))
    refuse("objective.discopop_tau: has no effect without discopop in objective.loss_type");
  if (c.use_weighting.value_or(false) && uses({aot, aot_unpaired}))
    refuse("objective.use_weighting: aot and aot_unpaired sort a batch, so that no pair has a loss to weigh");
}

void check_cpo(const ObjectiveConfig& c, const Refuse& refuse) {
  using enum LossType;
  LossType loss = c.loss_type.empty() ? sigmoid : c.loss_type[0];
  if (c.type == ObjectiveType::simpo) loss = simpo;
  const bool margin = loss == simpo || loss == alphapo;
  if (c.simpo_gamma && !margin)
    refuse("objective.simpo_gamma: has no effect without objective.loss_type simpo or alphapo");
  if (c.label_smoothing.value_or(0) > 0 && (loss == hinge || loss == ipo))
    refuse(str("objective.label_smoothing: has no effect with objective.loss_type ", name_of(loss)));
  if (loss == alphapo && c.cpo_alpha.value_or(0) > 0)
    refuse("objective.cpo_alpha: alphapo has no cross-entropy; set it to 0 or leave it out");
}

void check_distill(const ObjectiveConfig& c, const Refuse& refuse) {
  if (!c.teacher_model_name_or_path && !c.teacher_file)
    refuse(
        "objective.teacher_model_name_or_path: objective.type distill learns from a teacher; name its "
        "folder, or objective.teacher_file");
  if (c.teacher_model_name_or_path && c.teacher_file)
    refuse("objective.teacher_file: is in place of objective.teacher_model_name_or_path; leave one out");
  const bool kd = !c.loss_type.empty() && c.loss_type[0] == LossType::kd;
  if (kd && c.beta)
    refuse("objective.beta: kd takes the forward KL; leave it out, or leave out objective.loss_type");
  if (!kd && c.alpha) refuse("objective.alpha: has no effect without objective.loss_type=kd");
  if (c.beta.value_or(0) > 1) refuse("objective.beta: of distill is between 0 and 1");
  if (c.alpha.value_or(0) < 0 || c.alpha.value_or(0) > 1)
    refuse("objective.alpha: of distill is between 0 and 1");
}

// Throws for settings of generation if the answers come from a file, because it does not tell how they were
// made.
void check_given(const ObjectiveConfig& c, const Refuse& refuse) {
  for (const auto& [given, name] :
       {std::pair{c.steps_per_generation.has_value(), "steps_per_generation"},
        std::pair{c.mask_truncated_completions.has_value(), "mask_truncated_completions"},
        std::pair{c.top_k.has_value(), "top_k"}, std::pair{c.top_p.has_value(), "top_p"},
        std::pair{c.min_p.has_value(), "min_p"},
        std::pair{c.repetition_penalty.has_value(), "repetition_penalty"},
        std::pair{!c.reward_weights.empty(), "reward_weights"},
        std::pair{c.num_generations_eval.has_value(), "num_generations_eval"}})
    if (given)
      refuse(str("objective.", name,
                 ": answers are given, not generated; objective.reward_funcs or "
                 "objective.reward_command would have them generated"));
  if (c.max_completion_length && (c.loss_type.empty() || c.loss_type[0] != LossType::dr_grpo))
    refuse("objective.max_completion_length: has no effect without objective.loss_type=dr_grpo");
}

void check_rewards(const ObjectiveConfig& c, const Refuse& refuse) {
  const auto belongs = [&](bool given, bool wanted, const char* name, const std::string& to) {
    if (given && !wanted) refuse(str("objective.", name, ": has no effect without ", to));
    if (!given && wanted) refuse(str("objective.", name, ": ", to, " needs it"));
  };
  belongs(c.reward_regex.has_value(), has(c.reward_funcs, RewardCheck::regex), "reward_regex",
          "regex in objective.reward_funcs");
  belongs(c.soft_punish_cache.has_value(), has(c.reward_funcs, RewardCheck::length), "soft_punish_cache",
          "length in objective.reward_funcs");
  if (c.reward_timeout)
    belongs(true, c.reward_command.has_value(), "reward_timeout", "objective.reward_command");
  for (const RewardCheck check : c.reward_funcs)
    if (std::count(c.reward_funcs.begin(), c.reward_funcs.end(), check) > 1)
      refuse(str("objective.reward_funcs: ", name_of(check), " is there twice; give it a weight"));
  if (!c.generates()) return check_given(c, refuse);
  if (!c.reward_weights.empty() && c.reward_weights.size() != c.rewards())
    refuse(str("objective.reward_weights: ", c.reward_weights.size(), " of them for ", c.rewards(),
               " rewards; give one for each"));
  if (c.soft_punish_cache.value_or(0) > c.answer_length())
    refuse(
        str("objective.soft_punish_cache: is at most objective.max_completion_length, ", c.answer_length()));
}

void check_grpo(const ObjectiveConfig& c, const Refuse& refuse) {
  const bool kl = c.beta.value_or(0) > 0;
  if (!kl && c.ref_model_name_or_path)
    refuse("objective.ref_model_name_or_path: has no effect without objective.beta");
  if (!kl && c.use_bias_correction_kl)
    refuse("objective.use_bias_correction_kl: has no effect without objective.beta");
  check_rewards(c, refuse);
  if (c.epsilon.value_or(0.2) > 1) refuse("objective.epsilon: is at most 1");
}

void check_ppo(const ObjectiveConfig& c, const Refuse& refuse) {
  if (c.rewards() == 0)
    refuse(
        "objective.type: ppo answers prompts itself; set what rewards the answers: objective.reward_funcs, "
        "reward_command or reward_model_name_or_path");
  if (!c.has_reference() && c.ref_model_name_or_path)
    refuse("objective.ref_model_name_or_path: has no effect with objective.kl_coef=0");
  if (c.cliprange.value_or(0.2) > 1) refuse("objective.cliprange: is at most 1");
  check_rewards(c, refuse);
}

}  // namespace

void check(const ObjectiveConfig& c, const Refuse& refuse) {
  check_settings_of_type(c, refuse);
  check_losses(c, refuse);
  if (c.beta == 0 && c.type != ObjectiveType::grpo && !c.distills())
    refuse("objective.beta: must be above 0, it is 0");
  if (c.type == ObjectiveType::dpo) check_dpo(c, refuse);
  if (c.type == ObjectiveType::grpo) check_grpo(c, refuse);
  if (c.type == ObjectiveType::ppo) check_ppo(c, refuse);
  if (c.distills()) check_distill(c, refuse);
  if (c.type == ObjectiveType::cpo || c.type == ObjectiveType::simpo) check_cpo(c, refuse);
}

}  // namespace ft
