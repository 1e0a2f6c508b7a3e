// Translates transformers' TrainingArguments.
#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "app/translate/programs.h"

namespace ft::translate {
namespace {

using enum ValueKind;
using enum Fate;

constexpr const char* kHub = "ft does not connect to the Hugging Face Hub";
constexpr const char* kLoader = "ft has no loader processes: samples are tokenized ahead, in memory";
constexpr const char* kTorch = "there is no PyTorch to set up";
constexpr const char* kMetrics = "ft computes the metrics itself";
constexpr const char* kFsdp = "type zero_optimization.stage=3, which shards as FSDP does";

constexpr Flag kTraining[] = {
    // the run
    {"output_dir", text, same, "training.output_dir", ""},
    {"overwrite_output_dir", boolean, own, "ft train --overwrite", ""},
    {"do_train", boolean, own, "ft train", "without it: ft eval"},
    {"do_eval", boolean, own, "evaluation.eval_strategy", "default: epoch, also after the last step"},
    {"do_predict", boolean, no_effect, "",
     "afterwards: ft generate --model OUTPUT_DIR --input FILE --output FILE"},
    {"resume_from_checkpoint", text, own, "training.resume_from_checkpoint", ""},
    {"seed", whole, same, "training.seed", "random numbers are ft's own and differ from PyTorch's"},
    {"data_seed", whole, same, "data.data_seed", ""},
    {"full_determinism", boolean, same, "training.full_determinism", "always so"},
    {"run_name", text, same, "logging.run_name", ""},
    {"deepspeed", any, same, "deepspeed", "ft train reads DeepSpeed's file itself"},
    // the optimizer and its steps
    {"per_device_train_batch_size", whole, same, "training.per_device_train_batch_size", ""},
    {"per_gpu_train_batch_size", whole, same, "training.per_device_train_batch_size", "its old name"},
    {"per_device_eval_batch_size", whole, same, "training.per_device_eval_batch_size", ""},
    {"per_gpu_eval_batch_size", whole, same, "training.per_device_eval_batch_size", "its old name"},
    {"gradient_accumulation_steps", whole, same, "training.gradient_accumulation_steps", ""},
    {"num_train_epochs", number, same, "training.num_train_epochs", ""},
    {"max_steps", whole, same, "training.max_steps", ""},
    {"learning_rate", number, same, "training.learning_rate", ""},
    {"lr_scheduler_type", text, same, "training.lr_scheduler_type", ""},
    {"lr_scheduler_kwargs", any, own, "training.lr_scheduler_kwargs", ""},
    {"warmup_steps", number, same, "training.warmup_steps", ""},
    {"warmup_ratio", number, same, "training.warmup_ratio", ""},
    {"optim", text, own, "training.optim", "adamw_torch, adamw_torch_fused and adamw_hf are adamw"},
    {"weight_decay", number, same, "training.weight_decay", ""},
    {"adam_beta1", number, same, "training.adam_beta1", ""},
    {"adam_beta2", number, same, "training.adam_beta2", ""},
    {"adam_epsilon", number, same, "training.adam_epsilon", ""},
    {"max_grad_norm", number, same, "training.max_grad_norm", ""},
    {"label_smoothing_factor", number, same, "training.label_smoothing_factor", ""},
    {"average_tokens_across_devices", boolean, no_effect, "",
     "always so: a loss is divided by all tokens of the step"},
    {"adafactor", boolean, refused_on, "", "ft has adamw, lion and sgd"},
    {"optim_args", text, same, "training.optim_args", ""},
    {"optim_target_modules", any, refused, "", "ft has no GaLore and no APOLLO"},
    {"neftune_noise_alpha", number, same, "training.neftune_noise_alpha", ""},
    // precision and memory
    {"bf16", boolean, same, "training.bf16", ""},
    {"fp16", boolean, same, "training.fp16", ""},
    {"tf32", boolean, no_effect, "", "products in float32 keep float32's precision"},
    {"bf16_full_eval", boolean, no_effect, "", "evaluations compute in the type of training"},
    {"fp16_full_eval", boolean, no_effect, "", "evaluations compute in the type of training"},
    {"fp16_opt_level", text, no_effect, "", "that is Apex's"},
    {"fp16_backend", text, no_effect, "", "that is PyTorch's or Apex's"},
    {"half_precision_backend", text, no_effect, "", "that is PyTorch's or Apex's"},
    {"gradient_checkpointing", boolean, same, "training.gradient_checkpointing",
     "auto recomputes only as much as the memory requires"},
    {"gradient_checkpointing_kwargs", any, no_effect, "", "there is one way to recompute here"},
    {"auto_find_batch_size", boolean, refused_on, "",
     "ft plan says before the run whether it fits; ft tune searches"},
    {"torch_empty_cache_steps", whole, no_effect, "", "all memory is reserved before the first step"},
    {"use_cache", boolean, no_effect, "", "training keeps no cache of keys and values"},
    {"use_cpu", boolean, own, "device", ""},
    {"no_cuda", boolean, own, "device", "its old name"},
    {"use_mps_device", boolean, refused_on, "", "ft computes on x86-64 CPUs and NVIDIA GPUs"},
    {"use_ipex", boolean, no_effect, "", kTorch},
    {"jit_mode_eval", boolean, no_effect, "", kTorch},
    {"torch_compile", boolean, no_effect, "", kTorch},
    {"torch_compile_backend", text, no_effect, "", kTorch},
    {"torch_compile_mode", text, no_effect, "", kTorch},
    {"torchdynamo", text, no_effect, "", kTorch},
    {"use_liger_kernel", boolean, no_effect, "", "ft's kernels are fused already"},
    {"liger_kernel_config", any, no_effect, "", "ft's kernels are fused already"},
    // evaluation
    {"eval_strategy", text, same, "evaluation.eval_strategy", ""},
    {"evaluation_strategy", text, same, "evaluation.eval_strategy", "its old name"},
    {"eval_steps", number, same, "evaluation.eval_steps", ""},
    {"load_best_model_at_end", boolean, same, "evaluation.load_best_model_at_end", ""},
    {"metric_for_best_model", text, same, "evaluation.metric_for_best_model", ""},
    {"greater_is_better", boolean, same, "evaluation.greater_is_better", ""},
    {"predict_with_generate", boolean, same, "evaluation.predict_with_generate", ""},
    {"generation_max_length", whole, same, "generation.max_length", ""},
    {"generation_num_beams", whole, same, "generation.num_beams", ""},
    {"generation_config", text, refused, "",
     "write it as settings of generation, or into the model's folder"},
    {"eval_delay", number, refused, "", "leave it out: evaluations begin with the first that is due"},
    {"eval_on_start", boolean, refused_on, "", "type ft eval --config run.json before"},
    {"eval_accumulation_steps", whole, no_effect, "", "an evaluation keeps no outputs"},
    {"eval_do_concat_batches", boolean, no_effect, "", kMetrics},
    {"eval_use_gather_object", boolean, no_effect, "", kMetrics},
    {"batch_eval_metrics", boolean, no_effect, "", kMetrics},
    {"include_for_metrics", texts, no_effect, "", kMetrics},
    {"include_inputs_for_metrics", boolean, no_effect, "", kMetrics},
    {"prediction_loss_only", boolean, no_effect, "", "evaluation.metrics chooses the metrics"},
    {"label_names", texts, no_effect, "", "the labels come from data.datasets[].type"},
    // checkpoints
    {"save_strategy", text, same, "checkpointing.save_strategy", ""},
    {"save_steps", number, same, "checkpointing.save_steps", ""},
    {"save_total_limit", whole, same, "checkpointing.save_total_limit", ""},
    {"save_only_model", boolean, refused_on, "", "a checkpoint holds all state that resuming needs"},
    {"save_safetensors", boolean, no_effect, "", "always so"},
    {"save_on_each_node", boolean, refused_on, "",
     "ranks write one checkpoint, to a folder that all machines share"},
    {"enable_jit_checkpoint", boolean, no_effect, "", "checkpointing.save_on_signal is on: SIGTERM saves"},
    {"ignore_data_skip", boolean, refused_on, "",
     "a run resumes at its place in the data, without kind up to it"},
    {"restore_callback_states_from_checkpoint", boolean, no_effect, "", "there are no callbacks"},
    // logs
    {"logging_steps", number, same, "logging.logging_steps", ""},
    {"logging_first_step", boolean, same, "logging.logging_first_step", ""},
    {"logging_strategy", text, own, "logging.logging_steps", "steps; no and epoch are refused"},
    {"logging_dir", text, no_effect, "", "TensorBoard's files are in the run's folder: runs/"},
    {"logging_nan_inf_filter", boolean, no_effect, "", "a loss that is not finite ends the run"},
    {"report_to", texts, own, "logging.report_to", "tensorboard, wandb, mlflow, all, none"},
    {"disable_tqdm", boolean, own, "logging.progress", "plain: a line a row"},
    {"log_level", text, own, "logging.log_level", ""},
    {"log_level_replica", text, no_effect, "", "only rank 0 reports"},
    {"log_on_each_node", boolean, no_effect, "", "every rank has its own log in the run's folder: ranks/"},
    {"include_num_input_tokens_seen", text, no_effect, "", "always logged, as tokens_seen"},
    {"include_tokens_per_second", boolean, no_effect, "", "always logged"},
    {"skip_memory_metrics", boolean, no_effect, "", "the peak is always logged; measuring costs nothing"},
    {"debug", any, refused, "",
     "a loss that is not finite names the step; ft train --trace FILE shows operations"},
    // data
    {"dataloader_drop_last", boolean, refused_on, "", "the last, smaller batch is trained on too"},
    {"dataloader_num_workers", whole, no_effect, "", kLoader},
    {"dataloader_pin_memory", boolean, no_effect, "", kLoader},
    {"dataloader_persistent_workers", boolean, no_effect, "", kLoader},
    {"dataloader_prefetch_factor", whole, no_effect, "", kLoader},
    {"dataloader_multiprocessing_context", text, no_effect, "", kLoader},
    {"dataloader_in_order", boolean, no_effect, "", kLoader},
    {"remove_unused_columns", boolean, no_effect, "", "columns that are not needed are not read"},
    {"group_by_length", boolean, no_effect, "", "there is no padding to save"},
    {"sortish_sampler", boolean, no_effect, "", "there is no padding to save"},
    {"length_column_name", text, no_effect, "", "there is no padding to save"},
    {"train_sampling_strategy", text, own, "data.shuffle",
     "sequential is data.shuffle=false; there is no padding to group for"},
    {"split_batches", boolean, refused_on, "", "training.per_device_train_batch_size is each rank's"},
    {"dispatch_batches", boolean, no_effect, "", "every rank reads its own samples"},
    {"accelerator_config", any, refused, "", "there is no Accelerate here"},
    // ranks
    {"local_rank", whole, no_effect, "", "a rank gets its number from the environment"},
    {"ddp_backend", text, same, "distributed.backend", ""},
    {"ddp_timeout", whole, same, "distributed.timeout_s", ""},
    {"ddp_find_unused_parameters", boolean, no_effect, "", "a parameter without a gradient holds nothing up"},
    {"ddp_bucket_cap_mb", whole, no_effect, "", "zero_optimization.reduce_bucket_size is the bucket"},
    {"ddp_broadcast_buffers", boolean, no_effect, "", "the models have no buffers"},
    {"ddp_static_graph", boolean, no_effect, "", "always so"},
    {"sharded_ddp", text, refused, "", kFsdp},
    {"fsdp", any, own, "zero_optimization.stage",
     "full_shard is 3, shard_grad_op 2; offload is offload_param"},
    {"fsdp_config", any, refused, "", kFsdp},
    {"fsdp_min_num_params", whole, no_effect, "", "the units are the model's blocks"},
    {"fsdp_transformer_layer_cls_to_wrap", text, no_effect, "", "the units are the model's blocks"},
    {"parallelism_config", text, refused, "", "zero_optimization.stage shards over all ranks"},
    {"tpu_num_cores", whole, refused, "", "ft computes on x86-64 CPUs and NVIDIA GPUs"},
    {"past_index", whole, refused, "", "no model of ft has it"},
    // the Hub and services
    {"push_to_hub", boolean, refused_on, "", kHub},
    {"hub_model_id", text, no_effect, "", kHub},
    {"hub_strategy", text, no_effect, "", kHub},
    {"hub_token", secret, no_effect, "", kHub},
    {"hub_private_repo", boolean, no_effect, "", kHub},
    {"hub_always_push", boolean, no_effect, "", kHub},
    {"hub_revision", text, no_effect, "", kHub},
    {"push_to_hub_token", secret, no_effect, "", kHub},
    {"push_to_hub_model_id", text, no_effect, "", kHub},
    {"push_to_hub_organization", text, no_effect, "", kHub},
    {"project", text, no_effect, "", "that is Trackio's"},
    {"trackio_space_id", text, no_effect, "", "that is Trackio's"},
    {"trackio_bucket_id", text, no_effect, "", "that is Trackio's"},
    {"trackio_static_space_id", text, no_effect, "", "that is Trackio's"},
};

constexpr Default kTrainingDefaults[] = {
    {"learning_rate", "training.learning_rate", "5e-5"},
    {"lr_scheduler_type", "training.lr_scheduler_type", "\"linear\""},
    {"gradient_checkpointing", "training.gradient_checkpointing", "false"},
    {"bf16", "training.bf16", "false"}};

void choose_reporters(const Given& given, Draft& draft) {
  if (!given.has("report_to")) return;
  Json reporters = Json::array({"jsonl"});
  for (const auto& word : given.at("report_to")) {
    const std::string name = word;
    if (name == "tensorboard" || name == "all")
      reporters.push_back("tensorboard");
    else if (name == "wandb" || name == "mlflow")
      reporters.push_back(name);
    else if (name != "none")
      return draft.reject(
          "--report_to",
          printable(name) +
              " needs a network; there are tensorboard, wandb and mlflow (files), all and none");
  }
  draft.set("logging.report_to", reporters);
}

void choose_logs(const Given& given, Draft& draft) {
  choose_reporters(given, draft);
  if (given.on("disable_tqdm")) draft.set("logging.progress", "plain");
  if (const std::string s = given.text("logging_strategy", "steps"); s != "steps")
    draft.reject("--logging_strategy", "rows are logged every logging.logging_steps; give --logging_steps N");
  if (const std::string level = given.text("log_level", "passive"); level != "passive")
    draft.set("logging.log_level", level == "critical" ? "error" : level);
}

void choose_optimizer(const Given& given, Draft& draft) {
  if (given.has("optim")) {
    const std::string name = given.text("optim");
    const bool adamw = name == "adamw_torch" || name == "adamw_torch_fused" || name == "adamw_hf" ||
                       name == "adamw_apex_fused";
    draft.set("training.optim", adamw ? "adamw" : name);
  }
  if (!given.has("lr_scheduler_kwargs")) return;
  Json arguments = given.at("lr_scheduler_kwargs");
  if (arguments.is_string()) {
    const std::string text = arguments;
    if (!Json::accept(text) || !Json::parse(text).is_object())
      throw UserError(Exit::config, str("--lr_scheduler_kwargs: ", printable(text), " is not JSON"));
    arguments = Json::parse(text);
  }
  draft.set("training.lr_scheduler_kwargs", arguments);
}

void choose_shards(const Given& given, Draft& draft) {
  if (!given.has("fsdp")) return;
  const std::string words = given.at("fsdp").dump();
  const auto says = [&](const char* word) { return words.find(word) != words.npos; };
  if (says("full_shard") || says("hybrid_shard"))
    draft.set("zero_optimization.stage", 3);
  else if (says("shard_grad_op"))
    draft.set("zero_optimization.stage", 2);
  else
    return draft.reject("--fsdp", "it is none of full_shard, shard_grad_op and hybrid_shard");
  if (says("offload"))
    for (const char* part : {"offload_param", "offload_optimizer"})
      draft.set(str("zero_optimization.", part, ".device"), "cpu");
}

}  // namespace

std::span<const Flag> training_arguments() { return kTraining; }
std::span<const Default> training_defaults() { return kTrainingDefaults; }

void finish_training_arguments(const Given& given, Draft& draft) {
  choose_optimizer(given, draft);
  choose_shards(given, draft);
  choose_logs(given, draft);
  if (given.text("train_sampling_strategy") == "sequential") draft.set("data.shuffle", false);
  if (std::string from = given.text("resume_from_checkpoint"); !from.empty()) {
    if (from == "True" || from == "False") from[0] = from == "True" ? 't' : 'f';  // as Python writes them
    draft.set("training.resume_from_checkpoint", from == "true"    ? Json(true)
                                                 : from == "false" ? Json(false)
                                                                   : Json(from));
  }
  if (given.on("overwrite_output_dir")) draft.options.emplace_back("--overwrite");
  if (given.on("load_best_model_at_end") && !given.has("metric_for_best_model"))
    draft.set("evaluation.metric_for_best_model", "loss");
  const std::string strategy =
      given.text("eval_strategy", given.text("evaluation_strategy", given.on("do_eval") ? "epoch" : "no"));
  if (strategy == "steps" && !given.has("eval_steps"))  // the default of transformers
    draft.set("evaluation.eval_steps", given.has("logging_steps") ? given.at("logging_steps") : Json(500));
  if (strategy != "no") draft.set("evaluation.eval_strategy", strategy);
  draft.otherwise(kTrainingDefaults);
  if (!given.on("do_train")) draft.command = {"eval"};
}

}  // namespace ft::translate
