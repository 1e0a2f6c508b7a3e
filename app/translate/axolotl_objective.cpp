// The objective of axolotl's `rl` and `reward_model`: TRL's trainers, with keys of their own for some
// arguments.
#include <map>
#include <nlohmann/json.hpp>

#include "app/translate/axolotl.h"
#include "app/translate/names.h"

namespace ft::translate::axolotl {
namespace {

using enum ValueKind;
using enum Fate;

constexpr const char* kOwnAnswers =
    "ft generates the answers itself; objective.rollout_server names a server";
constexpr const char* kNoReplay = "answers are used for the steps of their generation only";

constexpr Flag kObjective[] = {
    {"rl", text, own, "objective.type", "ipo is dpo with loss_type ipo, simpo is cpo with loss_type simpo"},
    {"rl_beta", number, same, "objective.beta", ""},
    {"dpo_beta", number, same, "objective.beta", "its old name"},
    {"orpo_alpha", number, same, "objective.beta", "TRL's ORPO calls it beta"},
    {"simpo_gamma", number, same, "objective.simpo_gamma", ""},
    {"cpo_alpha", number, same, "objective.cpo_alpha", ""},
    {"rpo_alpha", number, own, "objective.loss_weights", "sigmoid and sft, weights 1 and rpo_alpha"},
    {"kto_desirable_weight", number, same, "objective.desirable_weight", ""},
    {"kto_undesirable_weight", number, same, "objective.undesirable_weight", ""},
    {"dpo_use_weighting", boolean, same, "objective.use_weighting", ""},
    {"dpo_label_smoothing", number, same, "objective.label_smoothing", ""},
    {"dpo_loss_type", texts, same, "objective.loss_type", ""},
    {"dpo_loss_weights", any, same, "objective.loss_weights", ""},
    {"precompute_ref_log_probs", boolean, same, "objective.precompute_ref_log_probs", ""},
    {"dpo_use_liger_kernel", boolean, no_effect, "", "a kernel of axolotl's; ft's own computes the same"},
    {"dpo_padding_free", boolean, no_effect, "", "batches have no padding"},
    {"dpo_use_logits_to_keep", boolean, no_effect, "", "a kernel of axolotl's; ft's own computes the same"},
    {"dpo_generate_during_eval", boolean, no_effect, "", "evaluation.predict_with_generate"},
    {"dpo_norm_loss", boolean, refused_on, "", "objective.loss_type=[\"sigmoid_norm\"]"},
    {"reward_model", boolean, own, "objective.type", "reward"},
    {"process_reward_model", boolean, own, "", "ft scores complete answers"},
    {"center_rewards_coefficient", number, same, "objective.center_rewards_coefficient", ""},
    {"num_labels", whole, no_effect, "", "a reward model has one score"},
    {"ebft", any, refused, "", "ft has no such method"},
    {"trl.beta", number, same, "objective.beta", ""},
    {"trl.max_completion_length", whole, same, "objective.max_completion_length", ""},
    {"trl.num_generations", whole, same, "objective.num_generations", ""},
    {"trl.reward_funcs", texts, own, "objective.reward_funcs",
     "functions in Python: write objective.reward_command, a program"},
    {"trl.reward_weights", any, own, "objective.reward_weights", ""},
    {"trl.generation_batch_size", whole, refused, "",
     "give objective.steps_per_generation, in micro-batches"},
    {"trl.importance_sampling_level", text, same, "objective.importance_sampling_level", ""},
    {"trl.scale_rewards", any, own, "objective.scale_rewards", "true is group, false is none"},
    {"trl.temperature", number, same, "objective.temperature", ""},
    {"trl.top_p", number, same, "objective.top_p", ""},
    {"trl.top_k", whole, same, "objective.top_k", ""},
    {"trl.min_p", number, same, "objective.min_p", ""},
    {"trl.repetition_penalty", number, same, "objective.repetition_penalty", ""},
    {"trl.generation_kwargs.stop_token_ids", any, refused, "", "answers end with the model's end tokens"},
    {"trl.generation_kwargs", any, refused, "", "ft has the settings of objective"},
    {"trl.chat_template_kwargs", any, same, "data.chat_template_kwargs", ""},
    {"trl.num_iterations", whole, same, "objective.num_iterations", ""},
    {"trl.epsilon", number, same, "objective.epsilon", ""},
    {"trl.epsilon_high", number, same, "objective.epsilon_high", ""},
    {"trl.loss_type", texts, same, "objective.loss_type", ""},
    {"trl.mask_truncated_completions", boolean, same, "objective.mask_truncated_completions", ""},
    {"trl.use_bias_correction_kl", boolean, same, "objective.use_bias_correction_kl", ""},
    {"trl.sync_ref_model", boolean, refused_on, "", "the reference stays the policy as the run began"},
    {"trl.ref_model_mixup_alpha", number, no_effect, "", "that is sync_ref_model's"},
    {"trl.ref_model_sync_steps", whole, no_effect, "", "that is sync_ref_model's"},
    {"trl.multi_objective_aggregation", text, refused_but, "sum_then_normalize",
     "rewards are added up first"},
    {"trl.off_policy_mask_threshold", number, refused, "", "ft has no such method"},
    {"trl.rollout_func", text, refused, "", "ft runs no Python"},
    {"trl.use_liger_loss", boolean, no_effect, "", "a kernel of axolotl's; ft's own computes the same"},
    {"trl.log_completions", boolean, no_effect, "", "the run's folder has the answers"},
    {"trl.num_completions_to_print", whole, no_effect, "", "the run's folder has the answers"},
    {"trl.use_vllm", boolean, no_effect, "", kOwnAnswers},
    {"trl.vllm_mode", text, no_effect, "", kOwnAnswers},
    {"trl.vllm_server_host", text, no_effect, "", kOwnAnswers},
    {"trl.vllm_server_port", whole, no_effect, "", kOwnAnswers},
    {"trl.vllm_server_timeout", number, no_effect, "", kOwnAnswers},
    {"trl.vllm_guided_decoding_regex", text, refused, "", "ft has no guided decoding"},
    {"trl.vllm_enable_sleep_mode", boolean, no_effect, "", kOwnAnswers},
    {"trl.vllm_sync_interval", whole, no_effect, "", kOwnAnswers},
    {"trl.vllm_lora_sync", boolean, no_effect, "", kOwnAnswers},
    {"trl.vllm_importance_sampling_correction", boolean, no_effect, "", kOwnAnswers},
    {"trl.vllm_importance_sampling_mode", text, no_effect, "", kOwnAnswers},
    {"trl.vllm_importance_sampling_cap", number, no_effect, "", kOwnAnswers},
    {"trl.use_data_producer", boolean, no_effect, "", kOwnAnswers},
    {"trl.async_prefetch", boolean, refused_on, "", "answers are those of the newest weights"},
    {"trl.prefetch_depth", whole, no_effect, "", "that is async_prefetch's"},
    {"trl.streaming_partial_batch", boolean, no_effect, "", kOwnAnswers},
    {"trl.streaming_min_groups", whole, no_effect, "", kOwnAnswers},
    {"trl.reward_num_workers", whole, no_effect, "", "objective.reward_command may use several"},
    {"trl.replay_buffer_size", whole, refused, "", kNoReplay},
    {"trl.replay_recompute_logps", boolean, no_effect, "", kNoReplay},
    {"trl.reroll_start_fraction", number, no_effect, "", kNoReplay},
    {"trl.reroll_max_groups", whole, no_effect, "", kNoReplay},
    {"trl.skip_zero_advantage_batches", boolean, no_effect, "", "such answers have no gradient"},
};

void choose_rewards(const Given& given, Draft& draft) {
  choose_reward_program(given.has("trl.reward_funcs") ? "trl.reward_funcs" : "", false, draft);
  if (given.has("trl.reward_weights"))
    draft.reject("trl.reward_weights", "one program rewards the answers: it adds up what it measures");
  if (const Json scale = given.json("trl.scale_rewards"); !scale.is_null())
    draft.set("objective.scale_rewards", scale == true ? "group" : scale == false ? Json("none") : scale);
}

}  // namespace

std::span<const Flag> objective_keys() { return kObjective; }

void choose_objective(const Given& given, Draft& draft) {
  if (given.on("process_reward_model"))
    throw UserError(Exit::config, "process_reward_model: ft scores complete answers, not their steps");
  const std::string rl = given.text("rl", given.on("reward_model") ? "reward" : "");
  static const std::map<std::string, const char*> types{
      {"dpo", "dpo"},   {"ipo", "dpo"},   {"kto", "kto"},      {"orpo", "orpo"},
      {"simpo", "cpo"}, {"grpo", "grpo"}, {"reward", "reward"}};
  if (rl.empty()) {
    for (const Flag& key : kObjective)
      if (given.has(key.name) && draft.row(key.name).to.starts_with("objective.")) {
        draft.erase(draft.row(key.name).to);
        draft.ignore(key.name, "without rl or reward_model it does nothing");
      }
    return;
  }
  const auto type = types.find(rl);
  if (type == types.end())
    throw UserError(Exit::config, str("rl: ft has no ", printable(rl),
                                      "; it has dpo, ipo, kto, orpo, simpo "
                                      "and grpo"));
  draft.set("objective.type", type->second);
  if (rl == "ipo") draft.set("objective.loss_type", Json::array({"ipo"}));
  if (rl == "simpo") draft.set("objective.loss_type", Json::array({"simpo"}));
  if (given.has("rpo_alpha")) {
    draft.set("objective.loss_type", Json::array({"sigmoid", "sft"}));
    draft.set("objective.loss_weights", Json::array({1, given.at("rpo_alpha")}));
  }
  if (rl != "grpo") return;
  choose_rewards(given, draft);
  draft.set("data.max_seq_length",
            std::int64_t(given.number("sequence_len", 512) + given.number("trl.max_completion_length", 512)));
}

}  // namespace ft::translate::axolotl
