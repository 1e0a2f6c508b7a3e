// torchtune's YAML: settings that follow from several keys.
#include "app/translate/torchtune.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "app/translate/interpolate.h"
#include "app/translate/list.h"
#include "engine/core/lower_case.h"

namespace ft::translate {
namespace torchtune {

std::string last_part(const std::string& component) { return component.substr(component.rfind('.') + 1); }

namespace {

constexpr Default kDefaults[] = {
    {"clip_grad_norm", "training.max_grad_norm", "0"},
    {"optimizer.weight_decay", "training.weight_decay", "0.01"},
    {"lr_scheduler", "training.lr_scheduler_type", "\"constant\""},
    {"enable_activation_checkpointing", "training.gradient_checkpointing", "false"},
    {"tokenizer.max_seq_len", "data.max_seq_length", "2048"}};

// Throws UserError (config) for recipes that ft does not have.
void require_training(const SettingsText& file, const Given& given) {
  const auto refuse = [](const std::string& what) { throw UserError(Exit::config, what); };
  const auto has = [&](const char* key) { return file.value.contains(key); };
  if (has("policy_model") || has("reward_and_value_model"))
    refuse(
        "policy_model: write the run for objective.type=ppo (docs/preferences.md): torchtune's PPO has two "
        "models "
        "and settings of its own");
  if (has("grpo_samples") || has("inference") || has("orchestration"))
    refuse(
        "grpo_samples: write the run for objective.type=grpo (docs/preferences.md): torchtune's rewards are "
        "Python");
  if (has("tasks")) refuse("tasks: the file measures benchmarks and trains nothing");
  if (!has("optimizer"))
    refuse(has("quantizer")
               ? "quantizer: the file quantizes a model and trains nothing: ft quantize"
               : "optimizer is missing: the file trains nothing; ft generate or ft chat answers prompts");
  const std::string model = given.text("model._component_");
  for (const char* sees : {"vision", "flamingo", "early_fusion", "clip", "scout", "maverick"})
    if (model.find(sees) != model.npos)
      refuse(str("model._component_: ", printable(last_part(model)),
                 " sees pictures, and ft trains on text only"));
  if (!given.has("checkpointer.checkpoint_dir"))
    refuse("checkpointer.checkpoint_dir is missing: the folder of the model");
}

void choose_adapter(const Given& given, Draft& draft) {
  const std::string model = last_part(given.text("model._component_"));
  const bool four = model.starts_with("qlora_"), lora = four || model.starts_with("lora_");
  draft.set("finetuning_type", lora ? "lora" : "full");
  if (!lora) return;
  if (four) draft.set("quantization.load_in_4bit", true);
  static const std::map<std::string, std::string> names{{"output_proj", "o_proj"}};
  Json targets = Json::array();
  for (const std::string module : given.has("model.lora_attn_modules") ? given.at("model.lora_attn_modules")
                                                                       : Json::array({"q_proj", "v_proj"}))
    targets.push_back(names.contains(module) ? names.at(module) : module);
  if (given.on("model.apply_lora_to_mlp"))
    for (const char* part : {"gate_proj", "up_proj", "down_proj"}) targets.push_back(part);
  if (given.on("model.apply_lora_to_output")) targets.push_back("lm_head");
  draft.set("lora.target_modules", targets);
  if (given.has("checkpointer.adapter_checkpoint"))
    draft.reject("checkpointer.adapter_checkpoint",
                 "name a PEFT adapter's folder: lora.adapter_name_or_path");
}

void choose_optimizer(const Given& given, Draft& draft) {
  static const std::map<std::string, const char*> names{{"AdamW", "adamw"},
                                                        {"Adam", "adamw"},
                                                        {"AdamW8bit", "adamw_8bit"},
                                                        {"PagedAdamW", "paged_adamw_32bit"},
                                                        {"PagedAdamW8bit", "paged_adamw_8bit"},
                                                        {"SGD", "sgd"},
                                                        {"Adagrad", "adagrad"},
                                                        {"Adafactor", "adafactor"}};
  const std::string name = last_part(given.text("optimizer._component_", "torch.optim.AdamW"));
  if (const auto known = names.find(name); known != names.end())
    draft.set("training.optim", known->second);
  else
    draft.reject("optimizer._component_",
                 str("ft has no ", printable(name), "; docs/optimizers.md lists its own"));
  if (name == "Adam") draft.set("training.adam_w_mode", false);
  if (name == "Adam" || name == "SGD" || name == "Adagrad")
    draft.otherwise("optimizer.weight_decay", "training.weight_decay", 0);
  if (const Json betas = given.json("optimizer.betas"); betas.is_array() && betas.size() == 2) {
    draft.set("training.adam_beta1", betas[0]);
    draft.set("training.adam_beta2", betas[1]);
  }
  if (given.has("optimizer.momentum"))
    draft.set("training.optim_args", str("momentum=", given.at("optimizer.momentum").dump()));
  if (const std::string clip = given.text("clip_grad_norm"); !clip.empty()) {
    const std::optional<Json> value = value_of(ValueKind::number, clip);
    if (value)
      draft.set("training.max_grad_norm", *value);
    else
      draft.ignore("clip_grad_norm", "it is off");
    if (!value) draft.set("training.max_grad_norm", 0);
  }
}

void choose_schedule(const Given& given, Draft& draft) {
  const std::string name = last_part(given.text("lr_scheduler._component_"));
  if (name == "get_cosine_schedule_with_warmup")
    draft.set("training.lr_scheduler_type", "cosine");
  else if (!name.empty())
    draft.reject("lr_scheduler._component_",
                 str("ft has no ", printable(name), "; docs/schedules.md lists its own"));
  if (given.has("max_steps_per_epoch"))
    draft.set("training.max_steps",
              std::int64_t(given.number("max_steps_per_epoch", 1) * given.number("epochs", 1)));
}

void choose_objective(const Given& given, Draft& draft) {
  const std::string loss = last_part(given.text("loss._component_"));
  if (loss == "DPOLoss" || loss == "RSOLoss") {
    draft.set("objective.type", "dpo");
    if (loss == "RSOLoss") draft.set("objective.loss_type", Json::array({"hinge"}));
    if (given.number("loss.label_smoothing", 0) > 0) {
      draft.set("objective.label_smoothing", given.at("loss.label_smoothing"));
      draft.set("objective.loss_type", Json::array({"robust"}));
      draft.reject("loss.label_smoothing",
                   "ft has it for loss_type robust only, which weighs pairs in another way");
      draft.erase("objective.label_smoothing");
      draft.erase("objective.loss_type");
    } else if (given.has("loss.label_smoothing")) {
      draft.ignore("loss.label_smoothing", "it is 0");
    }
  } else if (loss.find("CrossEntropy") == loss.npos && loss.find("CEWith") == loss.npos && !loss.empty()) {
    throw UserError(Exit::config, str("loss._component_: ft has no ", printable(loss),
                                      "; it has cross-entropy and DPOLoss"));
  }
  const std::string policy = given.text("checkpointer.checkpoint_dir"),
                    reference = given.text("ref_checkpointer.checkpoint_dir");
  if (!reference.empty() && reference != policy)
    draft.set("objective.ref_model_name_or_path", reference);
  else if (!reference.empty())
    draft.ignore("ref_checkpointer.checkpoint_dir", "the reference is the policy as the run began");
  if (!given.has("teacher_model._component_")) return;
  draft.set("objective.type", "distill");
  draft.set("objective.teacher_model_name_or_path", given.text("teacher_checkpointer.checkpoint_dir"));
  draft.set("objective.loss_type", Json::array({"kd"}));
  draft.set("objective.alpha", 1 - given.number("kd_ratio", 0.5));
  if (const std::string kd = last_part(given.text("kd_loss._component_")); !kd.starts_with("ForwardKL"))
    draft.reject("kd_loss._component_", "ft has the forward KL: objective.loss_type=[\"kd\"]");
}

void choose_machine(const Given& given, Draft& draft) {
  if (given.text("device") == "cpu") draft.set("device", "cpu");
  const std::string type = given.text("dtype", "bf16");
  draft.set("training.bf16", type == "bf16");
  if (type == "fp16") draft.set("training.fp16", true);
  if (given.on("enable_activation_offloading")) draft.set("training.gradient_checkpointing", "offload");
  if (given.on("fsdp_cpu_offload") || given.on("fsdp.cpu_offload"))
    draft.set("zero_optimization.offload_optimizer.device", "cpu");
  if (given.has("fsdp_reshard_after_forward"))
    draft.set("zero_optimization.stage", given.on("fsdp_reshard_after_forward") ? 3 : 2);
  if (given.number("data_parallel_shard_dim", 1) != 1) draft.set("zero_optimization.stage", 3);
}

void choose_log(const Given& given, Draft& draft) {
  const std::string logger = last_part(given.text("metric_logger._component_"));
  const char* reporter = logger == "WandBLogger"         ? "wandb"
                         : logger == "TensorBoardLogger" ? "tensorboard"
                                                         : nullptr;
  if (reporter) draft.set("logging.report_to", Json::array({"jsonl", reporter}));
  if (!reporter && !logger.empty()) draft.ignore("metric_logger._component_", "log.jsonl is always written");
  if (logger == "WandBLogger" && given.has("metric_logger.project"))
    draft.set("logging.wandb.project", given.at("metric_logger.project"));
  if (const std::string level = lower_case(given.text("log_level")); !level.empty())
    draft.set("logging.log_level", level == "critical" ? "error" : level);
  if (given.number("save_every_n_steps", 0) > 0) {
    draft.set("checkpointing.save_strategy", "steps");
    draft.set("checkpointing.save_steps", given.at("save_every_n_steps"));
  } else if (given.on("save_last_epoch_only")) {
    draft.set("checkpointing.save_strategy", "no");
  } else {
    draft.otherwise("save_every_n_epochs", "checkpointing.save_strategy", "epoch");
  }
}

void finish(const SettingsText& file, const Given& given, Draft& draft) {
  require_training(file, given);
  if (given.has("checkpointer.output_dir") && !given.has("output_dir"))
    draft.set("training.output_dir", given.at("checkpointer.output_dir"));
  choose_adapter(given, draft);
  choose_objective(given, draft);
  choose_data(given, draft);
  choose_optimizer(given, draft);
  choose_schedule(given, draft);
  choose_machine(given, draft);
  choose_log(given, draft);
  const std::string cut = given.text("tokenizer.truncation_type", "right");
  if (given.has("tokenizer.max_seq_len"))
    draft.set("data.truncation", cut == "left" ? "keep_end" : "keep_start");
  else
    draft.otherwise("tokenizer.max_seq_len", "data.truncation", "error");
}

bool has_component(const Json& value, int depth = 0) {
  if (value.is_object() && value.contains("_component_")) return true;
  if (depth > 2 || !value.is_object()) return false;
  return std::any_of(value.begin(), value.end(), [&](const Json& v) { return has_component(v, depth + 1); });
}

Table keys() { return joined({all_keys()}); }
bool fits(const Json& file) { return has_component(file); }

}  // namespace
}  // namespace torchtune

const Program kTorchtune{
    .name = "torchtune",
    .title = "torchtune",
    .about =
        "A YAML file, as `tune run RECIPE --config FILE` takes it. Components (`_component_`) become the "
        "settings "
        "that do the same; the model is the folder `checkpointer.checkpoint_dir`. torchtune computes with "
        "trained "
        "weights in bfloat16 if `dtype` is bf16; ft keeps them in float32 and computes in bfloat16. Without "
        "`tokenizer.max_seq_len` samples have any length: run.json allows 2,048 tokens, and ft refuses a "
        "longer "
        "sample by name. A recipe for several GPUs shards as `zero_optimization.stage=3`, with the same "
        "result.",
    .keys = torchtune::keys,
    .defaults = torchtune::kDefaults,
    .fits = torchtune::fits,
    .marks = "_component_",
    .prepare = interpolate,
    .finish = torchtune::finish};

}  // namespace ft::translate
