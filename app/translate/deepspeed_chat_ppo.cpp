// Translates step 3 of DeepSpeed-Chat: PPO with a critic and a reward model.
#include <nlohmann/json.hpp>

#include "app/translate/deepspeed_chat.h"
#include "app/translate/list.h"

namespace ft::translate {
namespace chat_ppo {
namespace {

using enum ValueKind;
using enum Fate;

constexpr const char* kHybrid = "training and generation share the weights here";
constexpr const char* kTwo = "policy and critic have one setting for both";

constexpr Flag kFlags[] = {
    {"data_path", texts, own, "data.datasets", "prompts"},
    {"data_split", text, own, "data.datasets[].weight", "the third share is this step's"},
    {"data_output_path", text, no_effect, "", "ft keeps no index of shuffled samples"},
    {"unsupervised_dataset_name", text, refused, "", "ft has no language modelling beside PPO"},
    {"unsupervised_dataset_config_name", text, refused, "", "ft has no language modelling beside PPO"},
    {"unsup_coef", number, no_effect, "", "that is unsupervised_dataset_name's"},
    {"actor_model_name_or_path", text, same, "model.model_name_or_path", ""},
    {"critic_model_name_or_path", text, own, "objective.reward_model_name_or_path",
     "the critic begins as the reward model, as in ft"},
    {"num_padding_at_beginning", whole, no_effect, "", "ft does not pad"},
    {"per_device_generation_batch_size", whole, own, "objective.steps_per_generation",
     "times generation_batches, divided by per_device_training_batch_size"},
    {"per_device_training_batch_size", whole, same, "training.per_device_train_batch_size", ""},
    {"generation_batches", whole, own, "objective.steps_per_generation", ""},
    {"ppo_epochs", whole, same, "objective.num_iterations", ""},
    {"max_prompt_seq_len", whole, own, "data.max_seq_length", "and max_answer_seq_len: ft counts both"},
    {"max_answer_seq_len", whole, same, "objective.max_completion_length", ""},
    {"actor_learning_rate", number, same, "training.learning_rate", ""},
    {"critic_learning_rate", number, same, "objective.critic_learning_rate", ""},
    {"actor_weight_decay", number, same, "training.weight_decay", ""},
    {"critic_weight_decay", number, no_effect, "", "the critic has training.weight_decay"},
    {"num_train_epochs", whole, same, "training.num_train_epochs", ""},
    {"lr_scheduler_type", text, same, "training.lr_scheduler_type", ""},
    {"gradient_accumulation_steps", whole, same, "training.gradient_accumulation_steps", ""},
    {"num_warmup_steps", whole, same, "training.warmup_steps", ""},
    {"output_dir", text, same, "training.output_dir", ""},
    {"seed", whole, same, "training.seed", "random numbers are ft's own and differ from PyTorch's"},
    {"preprocessing_num_workers", whole, same, "data.preprocessing_num_workers", "threads"},
    {"local_rank", whole, no_effect, "", "a rank gets its number from the environment"},
    {"enable_hybrid_engine", toggle, no_effect, "", kHybrid},
    {"unpin_actor_parameters", toggle, no_effect, "", kHybrid},
    {"release_inference_cache", toggle, no_effect, "", kHybrid},
    {"inference_tp_size", whole, no_effect, "", kHybrid},
    {"tp_gather_partition_size", whole, no_effect, "", kHybrid},
    {"offload", toggle, own, "zero_optimization.offload_optimizer.device", "cpu"},
    {"dtype", text, own, "training.fp16, training.bf16", ""},
    {"offload_reference_model", toggle, no_effect, "", "ft plan says what fits"},
    {"offload_reward_model", toggle, no_effect, "", "ft plan says what fits"},
    {"actor_zero_stage", whole, same, "zero_optimization.stage", ""},
    {"critic_zero_stage", whole, no_effect, "", kTwo},
    {"actor_gradient_checkpointing", toggle, same, "training.gradient_checkpointing", ""},
    {"critic_gradient_checkpointing", toggle, no_effect, "", kTwo},
    {"actor_dropout", number, refused_but, "0, 0.0", "dropout is off where answers are rewarded"},
    {"critic_dropout", number, refused_but, "0, 0.0", "dropout is off where answers are rewarded"},
    {"disable_actor_dropout", toggle, no_effect, "", "dropout is off where answers are rewarded"},
    {"disable_critic_dropout", toggle, no_effect, "", "dropout is off where answers are rewarded"},
    {"actor_lora_dim", whole, own, "lora.r", "with lora.lora_alpha 1: DeepSpeed-Chat scales by 1 / r"},
    {"actor_lora_module_name", text, no_effect, "", "all linears get an adapter"},
    {"critic_lora_dim", whole, no_effect, "", kTwo},
    {"critic_lora_module_name", text, no_effect, "", kTwo},
    {"only_optimize_lora", toggle, no_effect, "", "adapters are trained alone"},
    {"actor_lora_learning_rate", number, own, "training.learning_rate", "with actor_lora_dim"},
    {"critic_lora_learning_rate", number, own, "objective.critic_learning_rate", "with critic_lora_dim"},
    {"enable_ema", toggle, own, "training.ema_decay", "0.992"},
    {"enable_mixed_precision_lora", toggle, no_effect, "", "sums of gradients are in float32"},
    {"compute_fp32_loss", toggle, no_effect, "", "the loss is always computed in float32"},
    {"enable_tensorboard", toggle, own, "logging.report_to", ""},
    {"tensorboard_path", text, no_effect, "", "TensorBoard's files are in the run's folder: runs/"},
    {"add_eot_token", toggle, refused_on, "", "an answer ends with the tokenizer's own end token"},
    {"align_overflow", toggle, no_effect, "", "an overflow skips the step of both"},
    {"print_answers", toggle, no_effect, "", "the run's folder has the answers"},
    {"print_answers_interval", whole, no_effect, "", "the run's folder has the answers"},
    {"enable_test_mode", toggle, own, "training.max_steps", "test_stop_step"},
    {"test_stop_step", whole, own, "training.max_steps", "with enable_test_mode"},
    {"deepspeed", toggle, no_effect, "", "ranks and ZeRO stages need no DeepSpeed"},
};

constexpr Default kDefaults[] = {
    {"per_device_training_batch_size", "training.per_device_train_batch_size", "16"},
    {"num_train_epochs", "training.num_train_epochs", "1"},
    {"actor_learning_rate", "training.learning_rate", "9.65e-6"},
    {"critic_learning_rate", "objective.critic_learning_rate", "5e-6"},
    {"lr_scheduler_type", "training.lr_scheduler_type", "\"cosine\""},
    {"num_warmup_steps", "training.warmup_steps", "100"},
    {"gradient_checkpointing", "training.gradient_checkpointing", "false"},
    {"max_answer_seq_len", "objective.max_completion_length", "256"}};

void choose_adapter(const Given& given, Draft& draft) {
  if (given.number("actor_lora_dim", 0) <= 0) {
    for (const char* flag : {"actor_lora_dim", "actor_lora_learning_rate", "critic_lora_learning_rate"})
      if (given.has(flag)) draft.ignore(flag, "without actor_lora_dim the complete model is trained");
    return;
  }
  draft.set("finetuning_type", "lora");
  draft.set("lora.r", given.at("actor_lora_dim"));
  draft.set("lora.lora_alpha", 1);
  draft.set("training.learning_rate", given.number("actor_lora_learning_rate", 5e-4));
  if (given.has("actor_learning_rate"))
    draft.ignore("actor_learning_rate", "LoRA's weights have actor_lora_learning_rate");
  if (given.has("critic_lora_learning_rate"))
    draft.set("objective.critic_learning_rate", given.at("critic_lora_learning_rate"));
}

void finish(const SettingsText&, const Given& given, Draft& draft) {
  for (const char* model : {"actor_model_name_or_path", "critic_model_name_or_path"})
    if (!given.has(model)) throw UserError(Exit::config, str("main.py of step 3 needs --", model));
  draft.set("objective.type", "ppo");
  draft.set("objective.reward_model_name_or_path", given.at("critic_model_name_or_path"));
  choose_chat_precision(given, draft);
  choose_chat_sources(given, 2, "prompts", draft);
  draft.config["data"].erase("eval_datasets");  // it does not evaluate
  const double generated =
      given.number("per_device_generation_batch_size", 16) * given.number("generation_batches", 1);
  const double trained = given.number("per_device_training_batch_size", 16);
  draft.set("objective.steps_per_generation",
            std::max<std::int64_t>(1, std::int64_t(generated / std::max(1.0, trained))));
  draft.set("data.max_seq_length",
            std::int64_t(given.number("max_prompt_seq_len", 256) + given.number("max_answer_seq_len", 256)));
  choose_adapter(given, draft);
  if (given.on("offload")) draft.set("zero_optimization.offload_optimizer.device", "cpu");
  if (given.on("enable_ema")) draft.set("training.ema_decay", 0.992);
  if (given.on("enable_tensorboard")) draft.set("logging.report_to", Json::array({"jsonl", "tensorboard"}));
  if (given.on("enable_test_mode")) draft.set("training.max_steps", given.json("test_stop_step"));
  if (!given.on("enable_test_mode") && given.has("test_stop_step"))
    draft.ignore("test_stop_step", "enable_test_mode is off");
  draft.set("training.adam_beta2", 0.95);
}

}  // namespace
}  // namespace chat_ppo

const Program kChatPpo{.name = "deepspeed-chat-ppo",
                       .title = "DeepSpeed-Chat: step 3, PPO",
                       .about = "`deepspeed main.py ...` in step3_rlhf_finetuning.",
                       .keys = [] { return joined({chat_ppo::kFlags}); },
                       .defaults = chat_ppo::kDefaults,
                       .runs =
                           [](const std::string& script) {
                             return is_script(script, "main.py") && script.find("step3") != script.npos;
                           },
                       .finish = chat_ppo::finish};

}  // namespace ft::translate
