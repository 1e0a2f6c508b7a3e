#include "app/train/checkpoints/resume_rules.h"

#include <algorithm>
#include <array>

namespace ft {
namespace {

constexpr std::string_view kSteps = "the steps from here on follow it";
constexpr std::string_view kLength =
    "a learning rate that depends on the run's length follows the new one from here on";
constexpr std::string_view kData =
    "the run goes on at its step in the changed data: samples may be seen again or missed";
constexpr std::string_view kOrder =
    "samples come in another order from here on: some are seen again, others missed";
constexpr std::string_view kTargets = "other tokens are trained from here on";
constexpr std::string_view kHeldOut = "evaluations from here on cannot be compared with those before";
constexpr std::string_view kEvaluations = "evaluations from here on follow it";
constexpr std::string_view kAnswers = "answers from here on are those of this server";
constexpr std::string_view kRounding = "sums are rounded otherwise from here on";

// The first matching rule applies.
constexpr ResumeRule kRules[] = {
    {"$schema", OnResume::free},
    {"model.attn_implementation", OnResume::free},  // computes the same function
    {"model.revision", OnResume::free},             // the files themselves are compared
    {"model.download", OnResume::free},
    {"model.torch_dtype", OnResume::free},  // like training's dtype, which is compared
    {"model.", OnResume::refused},
    {"quantization.bnb_4bit_compute_dtype", OnResume::free},  // always training's dtype
    {"quantization.", OnResume::refused},
    {"lora.lora_dropout", OnResume::warned, kSteps},
    {"lora.", OnResume::refused},
    {"finetuning_type", OnResume::refused},
    {"objective.precompute_ref_log_probs", OnResume::free},
    {"objective.reward_timeout", OnResume::free},
    {"objective.critic_learning_rate", OnResume::warned, kSteps},
    {"objective.num_generations_eval", OnResume::warned, kEvaluations},
    {"objective.rollout_server", OnResume::noted, kAnswers},
    {"objective.rollout_server_model", OnResume::noted, kAnswers},
    {"objective.rollout_server_key_file", OnResume::free},
    {"objective.rollout_server_timeout", OnResume::free},
    {"objective.rollout_sync_steps", OnResume::warned, kSteps},
    {"objective.", OnResume::refused},
    {"device", OnResume::free},  // training's dtype is compared
    {"data.chat_template", OnResume::refused},
    {"data.chat_template_kwargs", OnResume::refused},
    {"data.prompt_template", OnResume::refused},
    {"data.new_tokens", OnResume::refused},
    {"data.new_special_tokens", OnResume::refused},
    {"data.train_on_inputs", OnResume::warned, kTargets},
    {"data.train_on_eos", OnResume::warned, kTargets},
    {"data.roles_to_train", OnResume::warned, kTargets},
    {"data.ignore_empty_think", OnResume::warned, kTargets},
    {"data.mask_history", OnResume::warned, kTargets},
    {"data.reasoning_content", OnResume::refused},
    {"data.datasets[].report_as", OnResume::refused},
    {"data.data_seed", OnResume::warned, kOrder},
    {"data.shuffle", OnResume::warned, kOrder},
    {"data.shuffle_buffer_size", OnResume::warned, kOrder},
    {"data.eval_datasets", OnResume::warned, kHeldOut},
    {"data.eval_datasets[].", OnResume::warned, kHeldOut},
    {"data.preprocessing_num_workers", OnResume::free},
    {"data.dataset_prepared_path", OnResume::free},
    {"data.", OnResume::warned, kData},
    {"data_efficiency.", OnResume::warned, kSteps},
    {"training.output_dir", OnResume::free},
    {"training.resume_from_checkpoint", OnResume::free},
    {"training.resume_despite", OnResume::free},
    {"training.per_device_eval_batch_size", OnResume::free},
    {"training.gradient_checkpointing", OnResume::free},
    {"training.full_determinism", OnResume::free},
    {"training.gemm_tuning", OnResume::free},
    {"training.tf32", OnResume::free},
    {"training.optim", OnResume::refused},
    {"training.optim_args", OnResume::refused},
    {"training.adam_w_mode", OnResume::refused},
    {"training.ema_decay", OnResume::refused},
    {"training.label_smoothing_factor", OnResume::refused},
    {"training.bf16", OnResume::refused},
    {"training.fp16", OnResume::refused},
    {"training.fp8", OnResume::refused},
    {"training.fp8_skip", OnResume::refused},
    {"training.qat", OnResume::refused},
    {"training.seed", OnResume::warned, kOrder},
    {"training.max_steps", OnResume::noted, kLength},
    {"training.num_train_epochs", OnResume::noted, kLength},
    {"training.per_device_train_batch_size", OnResume::warned, kData},
    // RunFolder::resume warns if a step has other micro-batches on all ranks together.
    {"training.gradient_accumulation_steps", OnResume::noted, kSteps},
    {"training.", OnResume::warned, kSteps},
    {"zero_optimization.zero_quantized_weights", OnResume::warned, kRounding},
    {"zero_optimization.zero_quantized_gradients", OnResume::warned, kRounding},
    {"zero_optimization.offload_optimizer.delayed_update", OnResume::warned, kSteps},
    {"zero_optimization.offload_optimizer.delayed_update_after", OnResume::warned, kSteps},
    {"zero_optimization.", OnResume::free},
    {"zero_stage", OnResume::free},
    {"distributed.communication_data_type", OnResume::warned, kRounding},
    {"distributed.prescale_gradients", OnResume::warned, kRounding},
    {"distributed.gradient_predivide_factor", OnResume::warned, kRounding},
    {"distributed.", OnResume::free},
    {"evaluation.metric_for_best_model", OnResume::warned, "the best evaluation is chosen again by it"},
    {"evaluation.greater_is_better", OnResume::warned, "the best evaluation is chosen again by it"},
    {"evaluation.", OnResume::noted, kEvaluations},
    {"checkpointing.", OnResume::free},
    {"logging.", OnResume::free},
    {"generation.", OnResume::noted, kEvaluations},
    {"sweep.", OnResume::free},
    {"tune.", OnResume::free},
    {"deepspeed", OnResume::free},  // its settings are compared as the run's settings
};

bool fits(std::string_view rule, std::string_view setting) {
  return rule.ends_with('.') ? setting.starts_with(rule) : setting == rule;
}

}  // namespace

const ResumeRule* find_resume_rule(std::string_view setting) {
  const auto* const rule = std::find_if(std::begin(kRules), std::end(kRules),
                                        [&](const ResumeRule& r) { return fits(r.setting, setting); });
  return rule == std::end(kRules) ? nullptr : rule;
}

}  // namespace ft
