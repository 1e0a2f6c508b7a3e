// Translates steps 1 and 2 of DeepSpeed-Chat: supervised fine-tuning, a reward model, DPO.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "app/translate/deepspeed_chat.h"
#include "app/translate/list.h"
#include "app/translate/names.h"
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

constexpr Flag kReward[] = {
    {"num_padding_at_beginning", whole, no_effect, "", "ft does not pad"},
    {"eval_interval", whole, same, "evaluation.eval_steps", ""},
    {"eval_iters", whole, no_effect, "", "an evaluation has all held-out rows"},
};

constexpr Flag kDpo[] = {
    {"beta", number, same, "objective.beta", ""},
    {"label_smoothing", number, own, "objective.label_smoothing", "of loss_type sigmoid ft has none but 0"},
    {"offload_reference_model", toggle, no_effect, "", "an adapter needs no copy; ft plan says what fits"},
};

// main.py's defaults that ft does not have.
constexpr Default kDefaults[] = {
    {"per_device_train_batch_size", "training.per_device_train_batch_size", "16"},
    {"per_device_eval_batch_size", "training.per_device_eval_batch_size", "16"},
    {"num_train_epochs", "training.num_train_epochs", "1"},
    {"lr_scheduler_type", "training.lr_scheduler_type", "\"cosine\""},
    {"gradient_checkpointing", "training.gradient_checkpointing", "false"},
    {"seed", "training.seed", "1234"},
    {"max_seq_len", "data.max_seq_length", "512"}};

enum class Step : std::uint8_t { sft, reward, dpo };

void choose_data(Step step, const Given& given, Draft& draft) {
  const bool sft = step == Step::sft;
  choose_chat_sources(given, sft ? 0 : 1, sft ? "preference_chosen" : "preference", draft);
  if (draft.find("data.eval_datasets"))
    draft.set("evaluation.eval_strategy", given.number("eval_interval", 0) > 0 ? "steps" : "epoch");
  if (given.number("eval_interval", 0) <= 0) draft.erase("evaluation.eval_steps");
  if (sft) draft.set("data.train_on_inputs", true);  // its labels are all tokens
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
  if (!given.on("only_optimize_lora")) {
    for (const char* flag : {"lora_module_name", "lora_learning_rate"})
      if (given.has(flag)) draft.ignore(flag, "the complete model is trained");
    return draft.reject("--lora_dim",
                        "without --only_optimize_lora the complete model is trained too, which ft does not "
                        "do; add it, or leave --lora_dim out");
  }
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
void choose_rate(Step step, const Given& given, Draft& draft) {
  const bool lora = draft.config["finetuning_type"] == "lora";
  const bool both = given.has("learning_rate") && given.has("lora_learning_rate");
  if (lora && given.has("learning_rate") && !both)
    draft.warnings.emplace_back(
        "main.py of today trains LoRA with --lora_learning_rate, by default 5e-4, whatever --learning_rate "
        "is; "
        "run.json has your --learning_rate");
  const char* flag = lora && (both || !given.has("learning_rate")) ? "lora_learning_rate" : "learning_rate";
  draft.set("training.learning_rate", given.number(flag, lora ? 5e-4 : step == Step::reward ? 5e-5 : 1e-3));
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

template <Step step>
void finish(const SettingsText&, const Given& given, Draft& draft) {
  if (!given.has("model_name_or_path")) throw UserError(Exit::config, "main.py needs --model_name_or_path");
  choose_chat_precision(given, draft);
  if (step != Step::sft) draft.set("objective.type", step == Step::dpo ? "dpo" : "reward");
  if (given.number("label_smoothing", 0) > 0)
    draft.reject("--label_smoothing", "ft smooths labels with loss_type robust, exo_pair and aot only");
  choose_data(step, given, draft);
  choose_adapter(given, draft);
  choose_rate(step, given, draft);
  choose_zero(given, draft);
  draft.otherwise(kDefaults);
  draft.set("training.adam_beta2", 0.95);
  if (given.on("enable_tensorboard")) draft.set("logging.report_to", Json::array({"jsonl", "tensorboard"}));
  expect_folder(given.text("model_name_or_path"), draft);
  if (is_t5(given.text("model_name_or_path")))
    draft.warnings.emplace_back("main.py trains decoders only; T5 is for run_translation.py");
}

bool is_main_of(const std::string& script, const char* step) {
  return is_script(script, "main.py") && script.find(step) != script.npos;
}

}  // namespace

std::span<const Flag> deepspeed_chat_flags() { return kChat; }

const Program kChatSft{
    .name = "deepspeed-chat-sft",
    .title = "DeepSpeed-Chat: step 1, supervised fine-tuning",
    .about =
        "`deepspeed main.py ...` in step1_supervised_finetuning, with any launcher. Its samples are a share "
        "of "
        "each data set (`--data_split`), which becomes a weight.",
    .keys = [] { return joined({kChat}); },
    .defaults = kDefaults,
    .runs = [](const std::string& script) { return is_main_of(script, "step1") || script == "main.py"; },
    .finish = finish<Step::sft>};
const Program kChatReward{
    .name = "deepspeed-chat-reward",
    .title = "DeepSpeed-Chat: step 2, reward model",
    .about = "`deepspeed main.py ...` in step2_reward_model_finetuning.",
    .keys =
        [] {
          return joined({kReward, kChat});
        },
    .defaults = kDefaults,
    .runs = [](const std::string& script) { return is_main_of(script, "step2_reward"); },
    .finish = finish<Step::reward>};
const Program kChatDpo{.name = "deepspeed-chat-dpo",
                       .title = "DeepSpeed-Chat: step 2, DPO",
                       .about = "`deepspeed main.py ...` in step2_dpo_finetuning.",
                       .keys =
                           [] {
                             return joined({kDpo, kChat});
                           },
                       .defaults = kDefaults,
                       .runs = [](const std::string& script) { return is_main_of(script, "step2_dpo"); },
                       .finish = finish<Step::dpo>};

}  // namespace ft::translate
