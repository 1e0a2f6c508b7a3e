// The arguments of TRL's trainers (1.x, and older names).
#include "app/translate/trl.h"

namespace ft::translate::trl {
namespace {

using enum ValueKind;
using enum Fate;

constexpr const char* kVllm = "ft generates the answers itself; objective.rollout_server names a server";
constexpr const char* kHere = "the run's folder has the answers";
constexpr const char* kMixed = "that is sync_ref_model's";
constexpr const char* kEntropy = "ft has no bonus for entropy";
constexpr const char* kOtherLoss = "that is another loss_type's";
constexpr const char* kNoPad = "batches have no padding";
constexpr const char* kKwargs = "write them into the config.json of the model's folder";
constexpr const char* kRef = "the reference stays the policy as the run began";

constexpr Flag kCommon[] = {
    {"dataset_name", text, own, "data.datasets[].path", ""},
    {"dataset_config", text, own, "data.datasets[].name", ""},
    {"dataset_train_split", text, own, "data.datasets[].split", ""},
    {"dataset_test_split", text, own, "data.eval_datasets[].split", "with eval_strategy"},
    {"dataset_streaming", boolean, same, "data.streaming", ""},
    {"streaming", boolean, same, "data.streaming", ""},
    {"test_split_size", number, same, "data.val_set_size", ""},
    {"datasets", any, own, "data.datasets", "path, name, data_files, split"},
    {"ignore_bias_buffers", boolean, no_effect, "", "the models have no buffers"},
    {"model_name_or_path", text, same, "model.model_name_or_path", ""},
    {"model_revision", text, own, "model.revision", ""},
    {"dtype", text, own, "model.torch_dtype", "float32 without use_peft is left out: trained weights are so"},
    {"torch_dtype", text, own, "model.torch_dtype", "its old name"},
    {"attn_implementation", text, no_effect, "", "ft's own kernel computes the same"},
    {"trust_remote_code", boolean, no_effect, "", "ft runs no code that comes with a model"},
    {"use_peft", boolean, own, "finetuning_type", "true is lora, false full"},
    {"lora_r", whole, same, "lora.r", ""},
    {"lora_alpha", number, same, "lora.lora_alpha", ""},
    {"lora_dropout", number, same, "lora.lora_dropout", ""},
    {"lora_target_modules", texts, own, "lora.target_modules", "default: q_proj and v_proj, as PEFT's"},
    {"lora_target_parameters", texts, same, "lora.target_parameters", ""},
    {"lora_modules_to_save", texts, same, "lora.modules_to_save", ""},
    {"lora_task_type", text, refused_but, "CAUSAL_LM, SEQ_CLS", "objective.type says it"},
    {"use_rslora", boolean, same, "lora.use_rslora", ""},
    {"use_dora", boolean, same, "lora.use_dora", ""},
    {"load_in_8bit", boolean, refused_on, "", "ft keeps frozen weights in 4 or in 16 bits"},
    {"load_in_4bit", boolean, same, "quantization.load_in_4bit", ""},
    {"bnb_4bit_quant_type", text, same, "quantization.bnb_4bit_quant_type", ""},
    {"use_bnb_nested_quant", boolean, same, "quantization.bnb_4bit_use_double_quant", ""},
    {"bnb_4bit_quant_storage", text, no_effect, "", "it changes memory only; ft plans its own"},
    {"model_init_kwargs", any, refused, "", kKwargs},
    {"router_aux_loss_coef", number, refused, "", "write it into the config.json of the model's folder"},
    {"activation_offloading", boolean, own, "training.gradient_checkpointing", "offload"},
    {"pad_to_multiple_of", whole, no_effect, "", kNoPad},
    {"pad_token", text, no_effect, "", kNoPad},
    {"dataset_num_proc", whole, same, "data.preprocessing_num_workers", "threads"},
    {"lr_scheduler_kwargs", any, same, "training.lr_scheduler_kwargs", ""},
    {"save_only_model", boolean, no_effect, "", "a checkpoint holds all state that resuming needs"},
    {"push_to_hub", boolean, no_effect, "", "the result stays in training.output_dir"},
    {"config", text, no_effect, "", "its keys are among these"},
    {"accelerate_config", text, own, "zero_optimization.stage", "zero1, zero2, zero3, fsdp1 and fsdp2"},
    {"num_processes", whole, own, "ft launch -n", "all processes, divided by --num_machines"},
    {"num_machines", whole, own, "ft launch --num_nodes", ""},
    {"env", any, refused, "", "give the variables before ft train"},
};

constexpr Flag kSft[] = {
    {"max_length", whole, same, "data.max_seq_length", ""},
    {"max_seq_length", whole, same, "data.max_seq_length", "its old name"},
    {"chat_template_path", text, same, "data.chat_template", "a file of a template"},
    {"dataset_text_field", text, own, "data.datasets[].columns", "text"},
    {"dataset_kwargs", any, refused, "", "ft prepares the rows in its own way"},
    {"eos_token", text, refused, "", "ft takes the tokenizer's; name it in tokenizer_config.json"},
    {"truncation_mode", text, same, "data.truncation", ""},
    {"shuffle_dataset", boolean, no_effect, "", "each epoch has an order of its own: data.shuffle"},
    {"packing", boolean, same, "data.packing", "samples never see each other"},
    {"packing_strategy", text, same, "data.packing_strategy", ""},
    {"padding_free", boolean, no_effect, "", kNoPad},
    {"eval_packing", boolean, no_effect, "", "evaluations give the same loss packed or not"},
    {"completion_only_loss", boolean, own, "data.train_on_inputs", "its opposite"},
    {"assistant_only_loss", boolean, own, "data.train_on_inputs", "its opposite, for conversations"},
    {"loss_type", text, own, "objective.loss_type", ""},
};

constexpr Flag kPairs[] = {
    {"max_length", whole, same, "data.max_seq_length", ""},
    {"max_prompt_length", whole, refused, "", "answers are cut at their end, by max_length"},
    {"max_completion_length", whole, refused, "", "answers are cut at their end, by max_length"},
    {"truncation_mode", text, same, "data.truncation", ""},
    {"disable_dropout", boolean, refused_but, "true", "dropout is off where answers are compared"},
    {"padding_free", boolean, no_effect, "", kNoPad},
    {"precompute_ref_batch_size", whole, no_effect, "", "it changes speed only"},
    {"sync_ref_model", boolean, refused_on, "", kRef},
    {"ref_model_mixup_alpha", number, no_effect, "", kMixed},
    {"ref_model_sync_steps", whole, no_effect, "", kMixed},
    {"eos_token", text, refused, "", "ft takes the tokenizer's; name it in tokenizer_config.json"},
    {"chat_template_path", text, same, "data.chat_template", "a file of a template"},
    {"is_encoder_decoder", boolean, no_effect, "", "the model's config.json says it"},
    {"generate_during_eval", boolean, no_effect, "", "evaluation.predict_with_generate"},
};

constexpr Flag kDpo[] = {
    {"beta", number, same, "objective.beta", ""},
    {"loss_type", texts, same, "objective.loss_type", ""},
    {"loss_weights", texts, own, "objective.loss_weights", ""},
    {"rpo_alpha", number, own, "objective.loss_weights", "sigmoid and sft, weights 1 and rpo_alpha"},
    {"label_smoothing", number, same, "objective.label_smoothing", ""},
    {"ld_alpha", number, same, "objective.ld_alpha", ""},
    {"f_divergence_type", text, same, "objective.f_divergence_type", ""},
    {"f_alpha_divergence_coef", number, same, "objective.f_alpha_divergence_coef", ""},
    {"discopop_tau", number, same, "objective.discopop_tau", ""},
    {"use_weighting", boolean, same, "objective.use_weighting", ""},
    {"precompute_ref_log_probs", boolean, same, "objective.precompute_ref_log_probs", ""},
    {"reference_free", boolean, refused_on, "", "cpo, orpo and simpo need no reference"},
};

constexpr Flag kKto[] = {
    {"beta", number, same, "objective.beta", ""},
    {"loss_type", texts, same, "objective.loss_type", ""},
    {"desirable_weight", number, same, "objective.desirable_weight", ""},
    {"undesirable_weight", number, same, "objective.undesirable_weight", ""},
    {"precompute_ref_log_probs", boolean, refused_on, "",
     "the reference is held: objective.ref_model_name_or_path"},
};

constexpr Flag kReward[] = {
    {"center_rewards_coefficient", number, same, "objective.center_rewards_coefficient", ""},
};

constexpr Flag kCpo[] = {
    {"beta", number, same, "objective.beta", ""},
    {"loss_type", texts, same, "objective.loss_type", ""},
    {"cpo_alpha", number, same, "objective.cpo_alpha", ""},
    {"simpo_gamma", number, same, "objective.simpo_gamma", ""},
    {"alpha", number, same, "objective.alpha", ""},
    {"label_smoothing", number, same, "objective.label_smoothing", ""},
};

constexpr Flag kOnline[] = {
    {"num_generations", whole, same, "objective.num_generations", ""},
    {"num_generations_eval", whole, same, "objective.num_generations_eval", ""},
    {"max_completion_length", whole, same, "objective.max_completion_length", ""},
    {"max_prompt_length", whole, own, "data.max_seq_length", "and max_completion_length: ft counts both"},
    {"generation_batch_size", whole, refused, "", "give steps_per_generation, in micro-batches"},
    {"steps_per_generation", whole, same, "objective.steps_per_generation", ""},
    {"temperature", number, same, "objective.temperature", ""},
    {"top_p", number, same, "objective.top_p", ""},
    {"top_k", whole, same, "objective.top_k", ""},
    {"min_p", number, same, "objective.min_p", ""},
    {"repetition_penalty", number, same, "objective.repetition_penalty", ""},
    {"generation_kwargs", any, refused, "", "ft has the settings of objective"},
    {"chat_template_kwargs", any, same, "data.chat_template_kwargs", ""},
    {"cache_implementation", text, no_effect, "", kVllm},
    {"beta", number, same, "objective.beta", ""},
    {"num_iterations", whole, same, "objective.num_iterations", ""},
    {"epsilon", number, same, "objective.epsilon", ""},
    {"epsilon_high", number, same, "objective.epsilon_high", ""},
    {"reward_funcs", texts, own, "objective.reward_command", "functions in Python: write a program"},
    {"reward_model_name_or_path", text, same, "objective.reward_model_name_or_path", ""},
    {"reward_model_path", text, same, "objective.reward_model_name_or_path", "its old name"},
    {"reward_weights", texts, own, "objective.reward_weights", ""},
    {"mask_truncated_completions", boolean, same, "objective.mask_truncated_completions", ""},
    {"disable_dropout", boolean, no_effect, "", "dropout is off where answers are rewarded"},
    {"ds3_gather_for_generation", boolean, no_effect, "", kVllm},
    {"shuffle_dataset", boolean, same, "data.shuffle", ""},
    {"sync_ref_model", boolean, refused_on, "", kRef},
    {"ref_model_mixup_alpha", number, no_effect, "", kMixed},
    {"ref_model_sync_steps", whole, no_effect, "", kMixed},
    {"log_completions", boolean, no_effect, "", kHere},
    {"log_multimodal", boolean, no_effect, "", kHere},
    {"log_unique_prompts", boolean, no_effect, "", kHere},
    {"log_completions_hub_repo", text, no_effect, "", kHere},
    {"num_completions_to_print", whole, no_effect, "", kHere},
    {"use_transformers_continuous_batching", boolean, no_effect, "", kVllm},
    {"transformers_continuous_batching_config", any, no_effect, "", kVllm},
    {"use_transformers_paged", boolean, no_effect, "", kVllm},
    {"use_vllm", boolean, no_effect, "", kVllm},
    {"vllm_mode", text, no_effect, "", kVllm},
    {"vllm_model_impl", text, no_effect, "", kVllm},
    {"vllm_enable_sleep_mode", boolean, no_effect, "", kVllm},
    {"vllm_structured_outputs_regex", text, refused, "", "ft has no guided decoding"},
    {"vllm_guided_decoding_regex", text, refused, "", "ft has no guided decoding"},
    {"vllm_server_base_url", text, no_effect, "", kVllm},
    {"vllm_server_host", text, no_effect, "", kVllm},
    {"vllm_server_port", whole, no_effect, "", kVllm},
    {"vllm_server_timeout", number, no_effect, "", kVllm},
    {"vllm_group_port", whole, no_effect, "", kVllm},
    {"vllm_gpu_memory_utilization", number, no_effect, "", kVllm},
    {"vllm_max_model_length", whole, no_effect, "", kVllm},
    {"vllm_tensor_parallel_size", whole, no_effect, "", kVllm},
};

constexpr Flag kGrpo[] = {
    {"delta", number, same, "objective.delta", ""},
    {"importance_sampling_level", text, same, "objective.importance_sampling_level", ""},
    {"scale_rewards", text, own, "objective.scale_rewards", "true is group, false is none"},
    {"loss_type", texts, same, "objective.loss_type", ""},
    {"use_bias_correction_kl", boolean, same, "objective.use_bias_correction_kl", ""},
    {"multi_objective_aggregation", text, refused_but, "sum_then_normalize", "rewards are added up first"},
    {"cast_lm_head_to_fp32", boolean, no_effect, "", "the loss is computed in float32"},
    {"top_entropy_quantile", number, refused_but, "1, 1.0", "every token counts"},
    {"entropy_coef", number, refused_but, "0, 0.0", kEntropy},
    {"use_adaptive_entropy", boolean, refused_on, "", kEntropy},
    {"entropy_coef_min", number, no_effect, "", "that is use_adaptive_entropy's"},
    {"entropy_coef_max", number, no_effect, "", "that is use_adaptive_entropy's"},
    {"entropy_coef_delta", number, no_effect, "", "that is use_adaptive_entropy's"},
    {"entropy_target", number, no_effect, "", "that is use_adaptive_entropy's"},
    {"sapo_temperature_neg", number, same, "objective.sapo_temperature_neg", ""},
    {"sapo_temperature_pos", number, same, "objective.sapo_temperature_pos", ""},
    {"vespo_k_pos", number, no_effect, "", kOtherLoss},
    {"vespo_lambda_pos", number, no_effect, "", kOtherLoss},
    {"vespo_k_neg", number, no_effect, "", kOtherLoss},
    {"vespo_lambda_neg", number, no_effect, "", kOtherLoss},
    {"max_tool_calling_iterations", whole, refused, "", "answers call no tools while they are generated"},
    {"vllm_importance_sampling_correction", boolean, no_effect, "", kVllm},
    {"vllm_importance_sampling_mode", text, no_effect, "", kVllm},
    {"vllm_importance_sampling_clip_max", number, no_effect, "", kVllm},
    {"vllm_importance_sampling_clip_min", number, no_effect, "", kVllm},
    {"vllm_importance_sampling_cap", number, no_effect, "", kVllm},
    {"off_policy_mask_threshold", number, refused, "", "ft has no such method"},
};

constexpr Flag kRloo[] = {
    {"normalize_advantages", boolean, same, "objective.normalize_advantages", ""},
    {"reward_clip_range", texts, own, "objective.reward_clip_range", ""},
};

}  // namespace

std::span<const Flag> common_keys() { return kCommon; }
std::span<const Flag> sft_keys() { return kSft; }
std::span<const Flag> pair_keys() { return kPairs; }
std::span<const Flag> dpo_keys() { return kDpo; }
std::span<const Flag> kto_keys() { return kKto; }
std::span<const Flag> reward_keys() { return kReward; }
std::span<const Flag> cpo_keys() { return kCpo; }
std::span<const Flag> online_keys() { return kOnline; }
std::span<const Flag> grpo_keys() { return kGrpo; }
std::span<const Flag> rloo_keys() { return kRloo; }

}  // namespace ft::translate::trl
