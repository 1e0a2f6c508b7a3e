// LLaMA-Factory's YAML: settings that follow from several keys.
#include "app/translate/llama_factory.h"

#include <nlohmann/json.hpp>

#include "app/translate/list.h"
#include "app/translate/names.h"
#include "app/translate/programs.h"

namespace ft::translate {
namespace llama_factory {
namespace {

constexpr Default kDefaults[] = {{"cutoff_len", "data.max_seq_length", "2048"},
                                 {"learning_rate", "training.learning_rate", "5e-5"},
                                 {"lr_scheduler_type", "training.lr_scheduler_type", "\"linear\""},
                                 {"bf16", "training.bf16", "false"}};

Json list_of(const std::string& text) {
  Json all = Json::array();
  for (const std::string& word : comma_separated(text)) all.push_back(word);
  return all;
}

void choose_adapter(const Given& given, Draft& draft) {
  const std::string type = given.text("finetuning_type", "lora");
  if (type != "lora" && type != "full")
    throw UserError(Exit::config,
                    str("finetuning_type: ft has no ", printable(type), "; it has lora and full"));
  draft.set("finetuning_type", type);
  if (type == "full") {
    for (const char* section : {"lora", "quantization"}) draft.config[section] = Json::object();
    for (Row& row : draft.rows)
      if (row.to.starts_with("lora.") || row.to.starts_with("quantization.")) {
        row.verdict = "no_effect";
        row.to.clear();
        row.why = "finetuning_type is full";
      }
    return;
  }
  const double rank = given.number("lora_rank", 8);
  draft.otherwise("lora_alpha", "lora.lora_alpha", 2 * std::int64_t(rank));
  if (const std::string target = given.text("lora_target", "all"); target == "all")
    draft.set("lora.target_modules", "all-linear");
  else
    draft.set("lora.target_modules", list_of(target));
  if (given.has("additional_target"))
    draft.set("lora.modules_to_save", list_of(given.text("additional_target")));
  if (given.on("pissa_init")) {
    const double iterations = given.number("pissa_iter", 16);
    draft.set("lora.init_lora_weights", iterations < 0 ? "pissa" : str("pissa_niter_", iterations));
  } else if (given.has("pissa_iter")) {
    draft.ignore("pissa_iter", "pissa_init is off");
  }
  if (!given.has("quantization_bit")) return;
  const double bits = given.number("quantization_bit", 4);
  if (bits == 4)
    draft.set("quantization.load_in_4bit", true);
  else
    draft.reject("quantization_bit", "ft keeps frozen weights in 4 or in 16 bits");
}

// The loss of DPO and its relatives, from pref_loss, pref_ftx and pref_bco_weight.
void choose_pairs(const Given& given, Draft& draft) {
  const std::string loss = given.text("pref_loss", "sigmoid");
  if (loss == "orpo" || loss == "simpo") {
    draft.set("objective.type", loss == "orpo" ? "orpo" : "simpo");
    if (given.has("pref_loss")) draft.map("pref_loss", "objective.type");
    return;
  }
  draft.set("objective.type", "dpo");
  Json losses = Json::array({loss == "kto_pair" ? "kto_pair" : loss}), weights = Json::array({1});
  for (const auto& [key, name] : {std::pair{"pref_ftx", "sft"}, {"pref_bco_weight", "bco_pair"}})
    if (given.number(key, 0) > 0) {
      losses.push_back(name);
      weights.push_back(given.at(key));
    } else if (given.has(key)) {
      draft.ignore(key, "it is 0");
    }
  draft.set("objective.loss_type", losses);
  if (losses.size() > 1) draft.set("objective.loss_weights", weights);
}

void choose_objective(const Given& given, Draft& draft) {
  const std::string stage = given.text("stage", "sft");
  if (stage == "dpo")
    choose_pairs(given, draft);
  else if (stage == "kto" || stage == "ppo")
    draft.set("objective.type", stage);
  else if (stage == "rm")
    draft.set("objective.type", "reward");
  else if (stage != "sft" && stage != "pt")
    throw UserError(Exit::config,
                    str("stage: ", printable(stage), " is none of pt, sft, rm, ppo, dpo and kto"));
  if (stage == "ppo" && given.has("pref_beta")) draft.map("pref_beta", "objective.kl_coef");
  const bool dynamic = stage == "sft" && given.on("use_dft_loss");
  if (dynamic)
    draft.set("objective.loss_type", Json::array({"dft"}));
  else if (given.has("use_dft_loss"))
    draft.ignore("use_dft_loss", stage == "sft" ? "it is off" : "it is of stage sft");
  const bool compares = stage == "dpo" || stage == "kto" || stage == "ppo";
  for (Row& row : draft.rows)
    if (row.to.starts_with("objective.") && row.flag != "stage" && !compares &&
        !(dynamic && row.flag == "use_dft_loss")) {
      draft.erase(row.to);
      row.verdict = "no_effect";
      row.to.clear();
      row.why = str("stage ", stage, " does not use it");
    }
}

void choose_model(const Given& given, Draft& draft) {
  if (const std::string revision = given.text("model_revision", "main"); revision != "main")
    draft.set("model.revision", revision);
  if (given.has("add_tokens")) draft.set("data.new_tokens", list_of(given.text("add_tokens")));
  if (given.has("add_special_tokens"))
    draft.set("data.new_special_tokens", list_of(given.text("add_special_tokens")));
}

void choose_training(const Given& given, Draft& draft) {
  if (!given.has("gradient_checkpointing"))
    draft.set("training.gradient_checkpointing", !given.on("disable_gradient_checkpointing"));
  if (given.text("recompute_granularity") == "full" || given.text("recompute_granularity") == "selective")
    draft.set("training.gradient_checkpointing", true);
  if (given.on("pure_bf16")) {
    draft.set("training.bf16", true);
    draft.reject("pure_bf16", "trained weights are kept in float32; run.json computes in bfloat16");
  } else if (given.has("pure_bf16")) {
    draft.ignore("pure_bf16", "it is off");
  }
  if (given.text("mixed_precision").starts_with("bf16")) draft.set("training.bf16", true);
  choose_fp8(given, draft);
  if (given.on("use_muon")) draft.set("training.optim", "muon");
  if (given.on("use_distributed_optimizer")) draft.set("zero_optimization.stage", 1);
  if (given.on("sequence_parallel")) draft.set("distributed.partition_activations", true);
}

Table keys() { return joined({own_keys(), training_arguments()}); }

void finish(const SettingsText& file, const Given& given, Draft& draft) {
  if (given.has("export_dir") && !given.has("stage"))
    throw UserError(Exit::config,
                    "export_dir: the file merges an adapter and trains nothing: ft merge --model M "
                    "--adapter A --output DIR");
  if (!given.has("stage") && !given.on("do_train"))
    throw UserError(Exit::config,
                    "the file answers prompts and trains nothing: ft chat or ft serve --model M "
                    "--adapter A");
  if (!given.has("model_name_or_path"))
    throw UserError(Exit::config, "model_name_or_path is missing: the model to train");
  choose_adapter(given, draft);
  choose_objective(given, draft);
  choose_data(file, given, draft);
  choose_model(given, draft);
  choose_training(given, draft);
  draft.otherwise(kDefaults);
  finish_training_arguments(given, draft);
  if (!given.has("do_train") && given.has("do_eval") == false) draft.command = {"train"};
}

bool fits(const Json& file) {
  const auto known = [&](const char* key) { return file.contains(key); };
  return known("model_name_or_path") &&
         (known("stage") || known("finetuning_type") || known("template") || known("cutoff_len"));
}

}  // namespace
}  // namespace llama_factory

const Program kLlamaFactory{
    .name = "llama-factory",
    .title = "LLaMA-Factory",
    .about =
        "A YAML file, as `llamafactory-cli train` takes it. `dataset` names entries of dataset_info.json, "
        "which is looked for in `dataset_dir`, from the working folder and from the file's. Instructions "
        "without messages become type `alpaca_chat`: the chat template writes them, as LLaMA-Factory's "
        "`template` does. Keys of transformers' TrainingArguments are in [their own "
        "table](#transformers-trainingarguments).",
    .keys = llama_factory::keys,
    .defaults = llama_factory::kDefaults,
    .fits = llama_factory::fits,
    .marks = "model_name_or_path with stage, finetuning_type, template or cutoff_len",
    .finish = llama_factory::finish};

}  // namespace ft::translate
