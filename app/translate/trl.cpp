// TRL's command lines and YAML: settings that follow from several arguments.
#include "app/translate/trl.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "app/translate/list.h"
#include "app/translate/names.h"
#include "app/translate/programs.h"
#include "engine/files/file.h"

namespace ft::translate {
namespace trl {
namespace {

enum class Method : std::uint8_t { sft, dpo, kto, reward, grpo, rloo, orpo, cpo };
constexpr const char* kMethods[] = {"sft", "dpo", "kto", "reward", "grpo", "rloo", "orpo", "cpo"};

constexpr Default kSftDefaults[] = {{"learning_rate", "training.learning_rate", "2e-5"},
                                    {"lr_scheduler_type", "training.lr_scheduler_type", "\"linear\""}};
constexpr Default kKtoDefaults[] = {{"train_sampling_strategy", "data.shuffle", "false"}};

const char* name_of(Method method) { return kMethods[static_cast<int>(method)]; }

Json numbers(const Json& words) {
  Json all = Json::array();
  for (const Json& word : words) {
    const std::optional<Json> value = value_of(ValueKind::number, word);
    all.push_back(value ? *value : word);
  }
  return all;
}

void choose_model(const Given& given, Draft& draft) {
  if (!given.has("model_name_or_path"))
    throw UserError(Exit::config, "model_name_or_path is missing: the model to train");
  if (const std::string revision = given.text("model_revision", "main"); revision != "main")
    draft.set("model.revision", revision);
  const bool lora = given.on("use_peft");
  draft.set("finetuning_type", lora ? "lora" : "full");
  for (const char* key : {"dtype", "torch_dtype"})
    if (given.has(key) && (lora || given.text(key) != "float32"))
      draft.set("model.torch_dtype", given.at(key));
  if (!lora) {
    for (const char* section : {"lora", "quantization"}) draft.config[section] = Json::object();
    for (Row& row : draft.rows)
      if (row.to.starts_with("lora.") || row.to.starts_with("quantization.")) {
        row.verdict = "no_effect";
        row.to.clear();
        row.why = "without use_peft the complete model is trained";
      }
    return;
  }
  draft.otherwise("lora_r", "lora.r", 16);
  draft.otherwise("lora_alpha", "lora.lora_alpha", 32);
  draft.otherwise("lora_dropout", "lora.lora_dropout", 0.05);
  if (const Json target = given.json("lora_target_modules"); target.is_array() && !target.empty())
    draft.set("lora.target_modules", target.size() == 1 && target[0] == "all-linear" ? target[0] : target);
  else
    draft.otherwise("lora_target_modules", "lora.target_modules", Json::array({"q_proj", "v_proj"}));
  if (given.on("load_in_4bit"))
    draft.otherwise("use_bnb_nested_quant", "quantization.bnb_4bit_use_double_quant", false);
}

Json source(const Json& path, const Json& name, const std::string& split, const std::string& usual) {
  Json made{{"path", path}};
  if (name.is_string()) made["name"] = name;
  if (split != usual) made["split"] = split;
  return made;
}

// Makes the sources of a YAML's `datasets`: TRL's DatasetMixtureConfig.
Json mixed(const Json& datasets, Draft& draft) {
  if (!datasets.is_array() || datasets.empty())
    throw UserError(Exit::config, "datasets must be a list of mappings, each with a path");
  Json all = Json::array();
  for (std::size_t i = 0; i < datasets.size(); ++i) {
    const Json& given = datasets[i];
    const auto key = [&](const char* name) { return str("datasets[", i, "].", name); };
    if (!given.is_object() || !given.value("path", Json()).is_string())
      throw UserError(Exit::config, str("datasets[", i, "] needs a path"));
    Json made = source(given["path"], given.value("name", Json()), "train", "train");
    const Json split = given.value("split", Json());
    if (split.is_string()) set_split(made, split, key("split"), draft);
    if (const Json files = given.value("data_files", Json()); !files.is_null()) {
      if (files.is_string() &&
          (given["path"] == "json" || given["path"] == "csv" || given["path"] == "parquet"))
        made["path"] = files;
      else
        draft.reject(key("data_files"), "fetch the data set, and name the file as path");
    }
    if (const Json part = given.value("fraction", Json()); part.is_number()) made["weight"] = part;
    for (const char* other : {"columns", "data_dir"})
      if (!given.value(other, Json()).is_null())
        draft.reject(key(other), "ft reads the columns that its types need");
    all.push_back(made);
  }
  return all;
}

// Returns true if the first row of a local file of JSON lines has this key.
bool first_row_has(const std::string& path, const char* key) {
  if (!path.ends_with(".jsonl") || !path_exists(path)) return false;
  std::ifstream in(path);
  std::string line(std::size_t{1} << 20, '\0');
  in.read(line.data(), std::ssize(line));
  line.resize(static_cast<std::size_t>(in.gcount()));
  line.resize(std::min(line.find('\n'), line.size()));
  return Json::accept(line) && Json::parse(line).is_object() && Json::parse(line).contains(key);
}

void choose_data(const Given& given, Draft& draft) {
  if (!given.has("dataset_name") && !given.has("datasets"))
    throw UserError(Exit::config, "dataset_name is missing: the data to train on");
  Json train = given.has("datasets")
                   ? mixed(given.at("datasets"), draft)
                   : Json::array({source(given.at("dataset_name"), given.json("dataset_config"),
                                         given.text("dataset_train_split", "train"), "train")});
  const std::string field = given.text("dataset_text_field", "text");
  if (field != "text")
    for (Json& one : train) one["columns"]["text"] = field;
  draft.set("data.datasets", train);
  const bool evaluates = given.text("eval_strategy", given.text("evaluation_strategy", "no")) != "no";
  if (evaluates && given.has("dataset_name") && !given.has("test_split_size"))
    draft.set("data.eval_datasets",
              Json::array({source(given.at("dataset_name"), given.json("dataset_config"),
                                  given.text("dataset_test_split", "test"), "")}));
  else if (given.has("dataset_test_split"))
    draft.ignore("dataset_test_split", "nothing is evaluated: eval_strategy is no");
}

// TRL trains on all tokens of texts and conversations, and on the completion of a prompt. One setting of ft
// decides for both.
void choose_trained_tokens(const Given& given, Draft& draft) {
  if (given.on("assistant_only_loss") || given.on("completion_only_loss"))
    return draft.set("data.train_on_inputs", false);
  if (given.has("completion_only_loss")) return draft.set("data.train_on_inputs", true);
  const Json& train = *draft.find("data.datasets");
  if (first_row_has(train[0].value("path", ""), "completion")) return;
  draft.set("data.train_on_inputs", true);
  draft.rows.push_back({"assistant_only_loss", false, "default", "data.train_on_inputs", "true: all tokens"});
  draft.warnings.emplace_back(
      "TRL trains on all tokens of texts and conversations, so that data.train_on_inputs is true; if the "
      "rows have a "
      "prompt and a completion set it to false: TRL trains on the completion only");
}

void choose_objective(Method method, const Given& given, Draft& draft) {
  if (method != Method::sft) draft.set("objective.type", name_of(method));
  if (given.has("loss_weights")) draft.set("objective.loss_weights", numbers(given.at("loss_weights")));
  if (given.has("reward_clip_range"))
    draft.set("objective.reward_clip_range", numbers(given.at("reward_clip_range")));
  if (given.has("rpo_alpha")) {
    draft.set("objective.loss_type", Json::array({"sigmoid", "sft"}));
    draft.set("objective.loss_weights", Json::array({1, given.at("rpo_alpha")}));
  }
  if (method == Method::sft && given.has("loss_type")) {
    const std::string loss = given.text("loss_type");
    if (loss == "dft")
      draft.set("objective.loss_type", Json::array({"dft"}));
    else if (loss == "nll" || loss == "chunked_nll")
      draft.ignore("loss_type", "it is ft's own");
    else
      draft.reject("loss_type", "sft has nll and dft");
  }
  if (given.has("scale_rewards")) {
    const std::string word = given.text("scale_rewards");
    const std::optional<Json> on = value_of(ValueKind::boolean, word);
    draft.set("objective.scale_rewards", !on ? Json(word) : *on == true ? "group" : "none");
  }
  const bool online = method == Method::grpo || method == Method::rloo;
  if (online) {
    const double room = given.number("max_prompt_length", 512) + given.number("max_completion_length", 512);
    draft.set("data.max_seq_length", std::int64_t(room));
  }
  if (online)
    choose_reward_program(given.has("reward_funcs") ? "reward_funcs" : "",
                          given.has("reward_model_name_or_path") || given.has("reward_model_path"), draft);
  if (given.has("reward_weights"))
    draft.reject("reward_weights", "one program rewards the answers: it adds up what it measures");
}

// Takes the number of processes and the file of Accelerate that the trl command takes.
void choose_ranks(const Given& given, Draft& draft) {
  const double machines = given.number("num_machines", 1), all = given.number("num_processes", 0);
  if (all > 0 && (machines < 1 || std::fmod(all, machines) != 0))
    throw UserError(Exit::config,
                    str("--num_processes ", all, " is not a multiple of --num_machines ", machines));
  if (all > 0) draft.launch = {"launch", "-n", std::to_string(std::int64_t(all / std::max(1.0, machines)))};
  if (all > 0 && machines > 1)
    draft.launch.insert(draft.launch.end(), {"--num_nodes", std::to_string(std::int64_t(machines))});
  if (!given.has("accelerate_config")) return;
  const std::string name = given.text("accelerate_config");
  const int stage = name.find("zero1") != name.npos                                     ? 1
                    : name.find("zero2") != name.npos                                   ? 2
                    : name.find("zero3") != name.npos || name.find("fsdp") != name.npos ? 3
                                                                                        : 0;
  if (stage > 0)
    draft.set("zero_optimization.stage", stage);
  else if (name.find("single_gpu") != name.npos || name.find("multi_gpu") != name.npos)
    draft.ignore("accelerate_config", "ft launch starts the ranks");
  else
    draft.reject("accelerate_config", "write its settings into run.json");
}

template <Method method>
void finish(const SettingsText&, const Given& given, Draft& draft) {
  choose_model(given, draft);
  choose_data(given, draft);
  choose_objective(method, given, draft);
  choose_ranks(given, draft);
  if (method == Method::sft) choose_trained_tokens(given, draft);
  if (method == Method::sft) draft.otherwise(kSftDefaults);
  if (method == Method::kto && !given.has("train_sampling_strategy")) draft.otherwise(kKtoDefaults);
  if (given.on("activation_offloading")) draft.set("training.gradient_checkpointing", "offload");
  draft.set("training.gradient_checkpointing", true, true);
  if (!given.on("fp16")) draft.otherwise("bf16", "training.bf16", true);
  if (method != Method::sft) {  // ft's own defaults are TRL's: they stay open
    draft.set("training.learning_rate", method == Method::reward ? 1e-4 : 1e-6, true);
    draft.set("training.lr_scheduler_type", "linear", true);
  }
  finish_training_arguments(given, draft);
  draft.command = {"train"};
}

template <Method method>
Table keys() {
  switch (method) {
    case Method::sft:
      return joined({sft_keys(), common_keys(), training_arguments()});
    case Method::dpo:
      return joined({dpo_keys(), pair_keys(), common_keys(), training_arguments()});
    case Method::kto:
      return joined({kto_keys(), pair_keys(), common_keys(), training_arguments()});
    case Method::reward:
      return joined({reward_keys(), pair_keys(), common_keys(), training_arguments()});
    case Method::grpo:
      return joined({grpo_keys(), online_keys(), common_keys(), training_arguments()});
    case Method::rloo:
      return joined({rloo_keys(), online_keys(), common_keys(), training_arguments()});
    case Method::orpo:
    case Method::cpo:
      return joined({cpo_keys(), pair_keys(), common_keys(), training_arguments()});
  }
  return {};
}

// A file is a trainer's if it has no key that the trainer lacks.
template <Method method>
bool fits(const Json& file) {
  if (!file.contains("model_name_or_path") || !(file.contains("dataset_name") || file.contains("datasets")))
    return false;
  const Table table = keys<method>();
  for (const auto& [key, value] : file.items())
    if (std::none_of(table.begin(), table.end(), [&](const Flag* f) { return key == f->name; })) return false;
  return true;
}

template <Method method>
bool runs(const std::string& script) {
  const std::string name = name_of(method);
  return script == "trl " + name || is_script(script, name + ".py") ||
         (method == Method::reward && is_script(script, "reward_modeling.py")) ||
         (method == Method::grpo && is_script(script, "gspo.py"));
}

template <Method method>
constexpr Program program(const char* name, const char* title, const char* about,
                          std::span<const Default> defaults = {}) {
  return {.name = name,
          .title = title,
          .about = about,
          .keys = keys<method>,
          .defaults = defaults,
          .fits = fits<method>,
          .marks = "model_name_or_path with dataset_name, and only keys of this trainer",
          .runs = runs<method>,
          .finish = finish<method>};
}

}  // namespace
}  // namespace trl

const Program kTrlSft =
    trl::program<trl::Method::sft>("trl-sft", "TRL: trl sft",
                                   "`trl sft ...`, `python trl/scripts/sft.py ...` with or without a "
                                   "launcher, and the YAML of `--config`. Defaults of "
                                   "TRL that ft does not have are written out: full training unless "
                                   "`--use_peft`, and with it adapters of rank 16 on "
                                   "q_proj and v_proj.",
                                   trl::kSftDefaults);
const Program kTrlDpo =
    trl::program<trl::Method::dpo>("trl-dpo", "TRL: trl dpo", "As `trl sft`, with pairs.");
const Program kTrlKto = trl::program<trl::Method::kto>(
    "trl-kto", "TRL: trl kto", "As `trl sft`, with labelled answers.", trl::kKtoDefaults);
const Program kTrlReward =
    trl::program<trl::Method::reward>("trl-reward", "TRL: trl reward", "As `trl sft`, with pairs.");
const Program kTrlGrpo =
    trl::program<trl::Method::grpo>("trl-grpo", "TRL: trl grpo",
                                    "As `trl sft`, with prompts. Rewards in Python become "
                                    "`objective.reward_command`, a program that you write.");
const Program kTrlRloo = trl::program<trl::Method::rloo>("trl-rloo", "TRL: trl rloo", "As `trl grpo`.");
const Program kTrlOrpo = trl::program<trl::Method::orpo>("trl-orpo", "TRL: orpo.py", "As `trl dpo`.");
const Program kTrlCpo = trl::program<trl::Method::cpo>("trl-cpo", "TRL: cpo.py", "As `trl dpo`.");

}  // namespace ft::translate
