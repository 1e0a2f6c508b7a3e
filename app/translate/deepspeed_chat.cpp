// Translates step 1 of DeepSpeed-Chat: supervised fine-tuning of a decoder.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "app/translate/programs.h"
#include "app/translate/sources.h"
#include "engine/files/file.h"

namespace ft::translate {
namespace {

using enum ValueKind;
using enum Fate;

constexpr Flag kChat[] = {
    {"data_path", texts, own, "data.datasets", "prompt and chosen answer of each row, and the end token"},
    {"sft_only_data_path", texts, own, "data.datasets", "all of it"},
    {"data_split", text, own, "data.datasets[].weight",
     "the first share is this step's; the seed chooses which samples"},
    {"data_output_path", text, no_effect, "", "ft keeps no index of shuffled samples"},
    {"model_name_or_path", text, same, "model.model_name_or_path", "a folder"},
    {"per_device_train_batch_size", whole, same, "training.per_device_train_batch_size", ""},
    {"per_device_eval_batch_size", whole, same, "training.per_device_eval_batch_size", ""},
    {"max_seq_len", whole, same, "data.max_seq_length", "without padding: the result is the same"},
    {"learning_rate", number, own, "training.learning_rate", ""},
    {"weight_decay", number, same, "training.weight_decay", ""},
    {"num_train_epochs", whole, same, "training.num_train_epochs", ""},
    {"gradient_accumulation_steps", whole, same, "training.gradient_accumulation_steps", ""},
    {"lr_scheduler_type", text, same, "training.lr_scheduler_type", ""},
    {"num_warmup_steps", whole, same, "training.warmup_steps", ""},
    {"output_dir", text, same, "training.output_dir", ""},
    {"seed", whole, same, "training.seed", "random numbers are ft's own and differ from PyTorch's"},
    {"local_rank", whole, no_effect, "", "a rank gets its number from the environment"},
    {"gradient_checkpointing", toggle, same, "training.gradient_checkpointing",
     "auto recomputes only as much as the memory requires"},
    {"dropout", number, refused, "", "write it into the config.json of the model's folder; LLaMA has none"},
    {"disable_dropout", toggle, no_effect, "", "LLaMA has none; others keep that of their config.json"},
    {"offload", toggle, own,
     "zero_optimization.offload_optimizer.device, zero_optimization.offload_param.device", "cpu"},
    {"dtype", text, own, "training.fp16, training.bf16", ""},
    {"zero_stage", whole, same, "zero_optimization.stage", ""},
    {"lora_dim", whole, own, "lora.r", "with lora.lora_alpha 1: DeepSpeed-Chat scales by 1 / r"},
    {"lora_module_name", text, own, "lora.target_modules", "linears with this text in their names"},
    {"only_optimize_lora", toggle, own, "finetuning_type", ""},
    {"lora_learning_rate", number, own, "training.learning_rate", "the rate of LoRA's weights"},
    {"compute_fp32_loss", toggle, no_effect, "", "the loss is always computed in float32"},
    {"enable_tensorboard", toggle, own, "logging.report_to", ""},
    {"tensorboard_path", text, no_effect, "", "TensorBoard's files are in the run's folder: runs/"},
    {"add_eot_token", toggle, refused_on, "", "an answer ends with the tokenizer's own end token"},
    {"eot_token", text, no_effect, "", "an answer ends with the tokenizer's own end token"},
    {"print_loss", toggle, no_effect, "",
     "log.jsonl has the loss; logging.logging_steps=1 prints every step's"},
    {"deepspeed", toggle, no_effect, "", "ranks and ZeRO stages need no DeepSpeed"},
    {"deepspeed_config", text, refused, "",
     "main.py makes its own; to use a file: ft train --config run.json --deepspeed FILE"},
    {"deepscale", toggle, no_effect, "", "its old name"},
};

[[noreturn]] void wrong_flag(const std::string& flag, const std::string& what) {
  throw UserError(Exit::config, str("ft translate-args: --", flag, ": ", what));
}

// Returns the first number of "2,4,4" divided by their sum.
double first_share(const std::string& split) {
  std::vector<double> parts;
  std::istringstream words(split);
  for (std::string word; std::getline(words, word, ',');) {
    if (word.empty() || word.find_first_not_of("0123456789.") != word.npos || word.size() > 9)
      wrong_flag("data_split", printable(split) + " is not three numbers, such as 2,4,4");
    parts.push_back(std::stod(word));
  }
  if (parts.size() != 3 || parts[0] <= 0)
    wrong_flag("data_split", printable(split) + " is not three numbers, the first above 0, such as 2,4,4");
  return parts[0] / (parts[0] + parts[1] + parts[2]);
}

struct Sources {
  Json train = Json::array(), held_out = Json::array();
};

void add_source(const std::string& name, double share, Sources& to, Draft& draft) {
  const bool local = path_exists(name), own_files = name == "local/jsonfile";  // in DeepSpeed-Chat's folder
  const std::string train = own_files ? "data/train.json"
                            : local   ? name
                                      : exported_part(name, "", "train", draft);
  Json s{{"path", train}, {"type", "preference_chosen"}};
  if (local) s.erase("type");
  if (share < 1) s["weight"] = share;
  to.train.push_back(s);
  if (local) return;
  const std::string held_out = own_files ? "data/eval.json" : exported_part(name, "", "test", draft);
  to.held_out.push_back({{"path", held_out}, {"type", "preference_chosen"}});
}

void choose_sources(const Given& given, Draft& draft) {
  const double share = first_share(given.text("data_split", "2,4,4"));
  const Json paths = given.has("data_path") ? given.at("data_path") : Json::array({"Dahoas/rm-static"});
  Sources all;
  for (const auto& path : paths) add_source(path, share, all, draft);
  if (given.has("sft_only_data_path"))
    for (const auto& path : given.at("sft_only_data_path")) add_source(path, 1, all, draft);
  if (all.train.empty()) wrong_flag("data_path", "names no data");
  draft.set("data.datasets", all.train);
  if (!all.held_out.empty()) {
    draft.set("data.eval_datasets", all.held_out);
    draft.set("evaluation.eval_strategy", "epoch");  // it measures perplexity after each epoch
  }
  draft.set("data.train_on_inputs", true);  // its labels are all tokens
  draft.set("data.max_seq_length", 512, true);
}

// Returns a regular expression that matches exactly the text.
std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text)
    out += (std::string("\\^$.|?*+()[]{}").find(c) != std::string::npos ? "\\" : "") + std::string(1, c);
  return out;
}

void choose_adapter(const Given& given, Draft& draft) {
  const double dim = given.number("lora_dim", 0);
  const std::string scope = given.text("lora_module_name", "decoder.layers.");
  const auto lora_only = [&](const char* flag) {
    for (Row& row : draft.rows)
      if (row.flag == flag && dim <= 0) {
        row.verdict = "no_effect";
        row.to.clear();
        row.why = "without --lora_dim the complete model is trained";
      }
  };
  for (const char* flag :
       {"--lora_module_name", "--lora_learning_rate", "--only_optimize_lora", "--lora_dim"})
    lora_only(flag);
  if (dim <= 0) return;
  if (!given.on("only_optimize_lora"))
    wrong_flag("lora_dim",
               "without --only_optimize_lora the complete model is trained too, which ft does not do; add "
               "it, or leave --lora_dim out");
  draft.set("finetuning_type", "lora");
  draft.set("lora.r", given.at("lora_dim"));
  draft.set("lora.lora_alpha", 1);
  const bool opt = scope == "decoder.layers.";
  draft.set("lora.target_modules", opt ? "all-linear" : ".*" + escaped(scope) + ".*");
  if (opt)
    draft.warnings.emplace_back(
        "--lora_module_name decoder.layers. is OPT's; no model of ft has such layers, so all linears get an "
        "adapter (LLaMA's are layers.)");
}

// Chooses the learning rate. Since August 2023 main.py has a separate rate for LoRA's weights, by default
// 5e-4; before, they used --learning_rate.
void choose_rate(const Given& given, Draft& draft) {
  const bool lora = draft.config["finetuning_type"] == "lora";
  const bool both = given.has("learning_rate") && given.has("lora_learning_rate");
  if (lora && given.has("learning_rate") && !both)
    draft.warnings.emplace_back(
        "main.py of today trains LoRA with --lora_learning_rate, by default 5e-4, whatever --learning_rate "
        "is; "
        "run.json has your --learning_rate");
  const char* flag = lora && (both || !given.has("learning_rate")) ? "lora_learning_rate" : "learning_rate";
  draft.set("training.learning_rate", given.number(flag, lora ? 5e-4 : 1e-3));
  for (Row& row : draft.rows)
    if (lora && both && row.flag == "--learning_rate") {
      row.verdict = "no_effect";
      row.to.clear();
      row.why = "LoRA's weights have --lora_learning_rate";
    }
}

void choose_zero(const Given& given, Draft& draft) {
  if (given.number("zero_stage", 0) == 3) {  // the values of its ds_utils.py
    draft.set("zero_optimization.stage3_param_persistence_threshold", 10000);
    draft.set("zero_optimization.stage3_max_live_parameters", 30000000);
    draft.set("zero_optimization.stage3_prefetch_bucket_size", 30000000);
  }
  if (given.on("offload"))
    for (const char* what : {"offload_optimizer", "offload_param"})
      draft.set("zero_optimization." + std::string(what) + ".device", "cpu");
}

}  // namespace

std::span<const Flag> deepspeed_chat_flags() { return kChat; }

void finish_deepspeed_chat(const Given& given, Draft& draft) {
  if (!given.has("model_name_or_path"))
    throw UserError(Exit::config, "ft translate-args: main.py needs --model_name_or_path");
  const std::string dtype = given.text("dtype", "fp16");
  if (dtype != "fp16" && dtype != "bf16") wrong_flag("dtype", printable(dtype) + " is neither fp16 nor bf16");
  draft.set("training.fp16", dtype == "fp16");
  draft.set("training.bf16", dtype == "bf16");
  choose_sources(given, draft);
  choose_adapter(given, draft);
  choose_rate(given, draft);
  choose_zero(given, draft);
  draft.set("training.per_device_train_batch_size", 16, true);
  draft.set("training.per_device_eval_batch_size", 16, true);
  draft.set("training.num_train_epochs", 1, true);
  draft.set("training.lr_scheduler_type", "cosine", true);
  draft.set("training.adam_beta2", 0.95);
  draft.set("training.gradient_checkpointing", false, true);
  draft.set("training.seed", 1234, true);
  if (given.on("enable_tensorboard")) draft.set("logging.report_to", Json::array({"jsonl", "tensorboard"}));
  expect_folder(given.text("model_name_or_path"), draft);
  if (is_t5(given.text("model_name_or_path")))
    draft.warnings.emplace_back("main.py trains decoders only; T5 is for run_translation.py");
}

}  // namespace ft::translate
