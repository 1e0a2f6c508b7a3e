// axolotl's YAML: settings that follow from several keys.
#include "app/translate/axolotl.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "app/translate/list.h"
#include "app/translate/names.h"

namespace ft::translate {
namespace axolotl {
namespace {

constexpr Default kDefaults[] = {{"micro_batch_size", "training.per_device_train_batch_size", "1"},
                                 {"num_epochs", "training.num_train_epochs", "1"},
                                 {"lr_scheduler", "training.lr_scheduler_type", "\"cosine\""},
                                 {"sequence_len", "data.max_seq_length", "512"},
                                 {"excess_length_strategy", "data.truncation", "\"drop\""},
                                 {"gradient_checkpointing", "training.gradient_checkpointing", "false"},
                                 {"save_strategy", "checkpointing.save_strategy", "\"epoch\""},
                                 {"save_total_limit", "checkpointing.save_total_limit", "4"},
                                 {"output_dir", "training.output_dir", "\"./model-out\""}};

void choose_adapter(const Given& given, Draft& draft) {
  const std::string adapter = given.text("adapter");
  if (!adapter.empty() && adapter != "lora" && adapter != "qlora")
    throw UserError(Exit::config, str("adapter: ft has no ", printable(adapter), "; it has lora and qlora"));
  draft.set("finetuning_type", adapter.empty() ? "full" : "lora");
  if (adapter.empty()) {
    for (const char* section : {"lora", "quantization"}) draft.config[section] = Json::object();
    for (Row& row : draft.rows)
      if (row.to.starts_with("lora.") || row.to.starts_with("quantization.")) {
        row.verdict = "no_effect";
        row.to.clear();
        row.why = "without adapter the complete model is trained";
      }
    return;
  }
  if (given.on("lora_target_linear")) {
    draft.set("lora.target_modules", "all-linear");
    if (given.has("lora_target_modules"))
      draft.ignore("lora_target_modules", "lora_target_linear has all linears");
  } else if (given.has("lora_target_modules")) {
    draft.set("lora.target_modules", given.at("lora_target_modules"));
  }
  if (given.has("peft.loftq_config.loftq_bits")) {
    draft.set("lora.init_lora_weights", "loftq");
    if (given.number("peft.loftq_config.loftq_bits", 4) != 4)
      draft.reject("peft.loftq_config.loftq_bits", "ft has LoftQ in 4 bits");
  }
}

void choose_batch(const Given& given, Draft& draft) {
  const double micro = given.number("micro_batch_size", 1);
  if (given.has("batch_size") && !given.has("gradient_accumulation_steps")) {
    const double steps = given.number("batch_size", 1) / std::max(1.0, micro);
    draft.set("training.gradient_accumulation_steps", std::max<std::int64_t>(1, std::int64_t(steps)));
  } else if (given.has("batch_size")) {
    draft.ignore("batch_size", "gradient_accumulation_steps says it");
  }
  draft.otherwise("eval_batch_size", "training.per_device_eval_batch_size", std::int64_t(micro));
}

// Sets when something happens, from steps or from a number of times in each epoch.
void choose_times(const Given& given, const char* what, const std::string& section, Draft& draft) {
  const std::string steps = str(what, "_steps"), strategy = str(what, "_strategy"),
                    each = str(what, "s_per_epoch");
  const double times = given.number(each, 0) * given.number("num_epochs", 1);
  if (given.number(each, 0) == 1) {
    draft.set(section + "." + strategy, "epoch");
  } else if (times > 0 && times <= 1) {
    draft.reject(each, "it is at most once in the whole run: set " + section + "." + steps);
  } else if (times > 1) {
    draft.set(section + "." + strategy, "steps");
    draft.set(section + "." + steps, 1 / times);
  } else if (given.number(steps, 0) > 0) {
    draft.set(section + "." + strategy, given.text(strategy, "steps"));
    draft.set(section + "." + steps, given.at(steps));
  } else if (given.has(each)) {
    draft.ignore(each, "it is 0");
  }
}

void choose_evaluation(const Given& given, Draft& draft) {
  const bool held_out = given.number("val_set_size", 0) > 0 || given.has("test_datasets");
  if (held_out) {
    choose_times(given, "eval", "evaluation", draft);
    return;
  }
  for (const char* key : {"evals_per_epoch", "eval_steps", "eval_strategy", "evaluation_strategy",
                          "early_stopping_patience", "load_best_model_at_end", "metric_for_best_model"})
    if (given.has(key)) draft.ignore(key, "nothing is held out: val_set_size is 0");
  draft.config["evaluation"] = Json::object();
}

// Returns "auto", true or false as a setting.
Json switched(const std::string& word) {
  if (word == "auto") return word;
  const std::optional<Json> value = value_of(ValueKind::boolean, word);
  return value ? *value : Json(word);
}

void choose_precision(const Given& given, Draft& draft) {
  if (given.has("bf16")) {
    const std::string word = given.text("bf16");
    if (!given.on("fp16")) draft.set("training.bf16", word == "full" ? Json(true) : switched(word));
    if (given.on("fp16")) draft.ignore("bf16", "fp16 is on");
  }
  choose_fp8(given, draft);
  const std::string recompute = given.text("gradient_checkpointing");
  if (!recompute.empty())
    draft.set("training.gradient_checkpointing",
              recompute.starts_with("offload") ? "offload" : switched(recompute));
  const std::string offload = given.text("activation_offloading");
  if (offload == "true" || offload == "legacy" || offload == "disk")
    draft.set("training.gradient_checkpointing", "offload");
  else if (!offload.empty())
    draft.ignore("activation_offloading", "it is off");
}

void choose_optimizer(const Given& given, Draft& draft) {
  if (given.has("optimizer"))
    draft.set("training.optim", optimizer_name(given.text("optimizer"), "optimizer", draft));
  if (given.has("optim_args")) draft.set("training.optim_args", optimizer_arguments(given.at("optim_args")));
  if (given.has("embedding_lr_scale"))
    draft.set("training.embedding_learning_rate",
              given.number("embedding_lr_scale", 1) * given.number("learning_rate", 0));
  if (given.has("cosine_min_lr_ratio") && given.number("cosine_min_lr_ratio", 0) > 0) {
    draft.set("training.lr_scheduler_type", "cosine_with_min_lr");
    draft.set("training.min_lr_ratio", given.at("cosine_min_lr_ratio"));
  }
  if (given.number("cosine_constant_lr_ratio", 0) > 0)
    draft.reject("cosine_constant_lr_ratio", "cosine decays to the last step");
  else if (given.has("cosine_constant_lr_ratio"))
    draft.ignore("cosine_constant_lr_ratio", "it is 0");
  if (!given.has("lr_groups")) return;
  Json groups = Json::array();
  for (const Json& group : given.at("lr_groups")) {
    if (!group.is_object()) throw UserError(Exit::config, "lr_groups must be a list of mappings");
    Json patterns = Json::array();
    for (const Json& module : group.value("modules", Json::array()))
      if (module.is_string()) patterns.push_back(escaped(module));
    groups.push_back({{"params", patterns}, {"learning_rate", group.value("lr", Json())}});
  }
  draft.set("training.param_groups", groups);
}

// axolotl's own rule, if neither warmup_steps nor warmup_ratio is given: 3 % of the steps, at most 100.
void choose_warmup(const Given& given, Draft& draft) {
  if (given.has("warmup_steps") || given.has("warmup_ratio")) return;
  draft.otherwise("warmup_ratio", "training.warmup_ratio", 0.03);
}

void choose_shards(const Given& given, Draft& draft) {
  const auto has = [&](const std::string& key) {
    return given.has("fsdp_config." + key)        ? "fsdp_config." + key
           : given.has("fsdp_config.fsdp_" + key) ? "fsdp_config.fsdp_" + key
                                                  : "";
  };
  const Json words = given.has("fsdp") ? given.at("fsdp") : Json::array();
  const auto says = [&](const char* word) {
    return std::find(words.begin(), words.end(), word) != words.end();
  };
  const bool shards = !words.empty() || draft.has_row("fsdp_config.");
  int stage = shards ? 3 : 0;
  if (says("shard_grad_op")) stage = 2;
  if (says("no_shard")) stage = 0;
  if (const std::string key = has("sharding_strategy"); !key.empty())
    stage = given.text(key) == "SHARD_GRAD_OP" ? 2 : given.text(key) == "NO_SHARD" ? 0 : 3;
  if (const std::string key = has("reshard_after_forward"); !key.empty() && !given.on(key)) stage = 2;
  if (given.number("dp_shard_size", 1) > 1) stage = 3;
  if (stage > 0) draft.set("zero_optimization.stage", stage);
  const std::string offload = has("offload_params");
  if (says("offload") || (!offload.empty() && given.on(offload)))
    for (const char* part : {"offload_param", "offload_optimizer"})
      draft.set(str("zero_optimization.", part, ".device"), "cpu");
  else if (!offload.empty())
    draft.ignore(offload, "it is off");
  if (const std::string key = has("activation_checkpointing"); !key.empty())
    draft.set("training.gradient_checkpointing", given.on(key));
  if (given.number("dp_replicate_size", 1) > 1 && given.number("dp_shard_size", 1) > 1)
    draft.set("zero_optimization.mics_shard_size", given.at("dp_shard_size"));
}

void choose_log(const Given& given, Draft& draft) {
  Json reporters = Json::array({"jsonl"});
  const bool wandb =
      given.on("use_wandb") || (!given.has("use_wandb") && !given.text("wandb_project").empty());
  if (given.on("use_tensorboard")) reporters.push_back("tensorboard");
  if (wandb) reporters.push_back("wandb");
  if (wandb && given.has("wandb_project")) draft.set("logging.wandb.project", given.at("wandb_project"));
  if (given.on("use_mlflow") || given.has("mlflow_experiment_name")) reporters.push_back("mlflow");
  if (given.has("mlflow_experiment_name"))
    draft.set("logging.mlflow.experiment_name", given.at("mlflow_experiment_name"));
  if (reporters.size() > 1) draft.set("logging.report_to", reporters);
}

// Judges plugins: those that bring kernels or a service change nothing.
void judge_plugins(const Given& given, Draft& draft) {
  if (!given.has("plugins")) return;
  std::string missing;
  for (const std::string plugin : given.at("plugins")) {
    const bool kernels = plugin.find("cut_cross_entropy") != plugin.npos ||
                         plugin.find("liger") != plugin.npos || plugin.find("kernels") != plugin.npos ||
                         plugin.find("expert_parallel") != plugin.npos ||
                         plugin.find("swanlab") != plugin.npos;
    if (!kernels) missing += (missing.empty() ? "" : ", ") + printable(plugin.substr(plugin.rfind('.') + 1));
  }
  if (missing.empty())
    draft.ignore("plugins", "they bring kernels or a service");
  else
    draft.reject("plugins", "ft has no " + missing);
}

void finish(const SettingsText& file, const Given& given, Draft& draft) {
  if (given.has("processor_type"))
    throw UserError(Exit::config, "processor_type: the run trains on pictures or sound, and ft on text only");
  if (!given.has("base_model")) throw UserError(Exit::config, "base_model is missing: the model to train");
  choose_adapter(given, draft);
  choose_objective(given, draft);
  choose_data(file, given, draft);
  choose_batch(given, draft);
  choose_times(given, "save", "checkpointing", draft);
  choose_evaluation(given, draft);
  choose_precision(given, draft);
  choose_optimizer(given, draft);
  choose_warmup(given, draft);
  choose_shards(given, draft);
  choose_log(given, draft);
  judge_plugins(given, draft);
  if (given.on("resize_token_embeddings_to_32x"))
    draft.set("model.resize_token_embeddings_to_multiple_of", 32);
  if (given.on("auto_resume_from_checkpoints")) draft.set("training.resume_from_checkpoint", "auto");
  if (given.text("device") == "cpu") draft.set("device", "cpu");
}

bool fits(const Json& file) {
  return file.contains("base_model") && (file.contains("datasets") || file.contains("adapter") ||
                                         file.contains("micro_batch_size") || file.contains("sequence_len"));
}

}  // namespace
}  // namespace axolotl

const Program kAxolotl{
    .name = "axolotl",
    .title = "axolotl",
    .about =
        "A YAML file, as `axolotl train` takes it. `micro_batch_size` and `gradient_accumulation_steps` are "
        "those of each rank, as in ft. Times in each epoch (`evals_per_epoch`, `saves_per_epoch`) become "
        "fractions of all steps. A split with a slice, `train[:10%]`, becomes a weight: as many rows, chosen "
        "at random. Without `warmup_steps` and `warmup_ratio` axolotl warms up for 3 % of the steps, but for "
        "at most 100, and ft for 3 %.",
    .keys = axolotl::keys,
    .defaults = axolotl::kDefaults,
    .fits = axolotl::fits,
    .marks = "base_model",
    .finish = axolotl::finish};

}  // namespace ft::translate
