// axolotl's data sets: their files, the formats of their rows, and chat templates.
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "app/translate/axolotl.h"
#include "app/translate/names.h"
#include "engine/files/file.h"

namespace ft::translate::axolotl {
namespace {

using enum ValueKind;
using enum Fate;

constexpr const char* kOfType = "data.datasets[].type";
constexpr const char* kKeys = "ft reads messages with role and content, or from and value";
constexpr const char* kColumns = "data.datasets[].columns";

constexpr Flag kData[] = {
    {"datasets[].path", text, own, "data.datasets[].path", ""},
    {"datasets[].type", any, own, kOfType, ""},
    {"datasets[].name", text, own, "data.datasets[].name", ""},
    {"datasets[].split", text, own, "data.datasets[].split", ""},
    {"datasets[].revision", text, own, "data.datasets[].revision", ""},
    {"datasets[].data_files", texts, own, "data.datasets[].path", ""},
    {"datasets[].ds_type", text, no_effect, "", "the file's ending says it"},
    {"datasets[].trust_remote_code", boolean, no_effect, "", "ft runs no code that comes with data"},
    {"datasets[].field", text, own, kColumns, "text"},
    {"datasets[].text_column", text, own, kColumns, "text"},
    {"datasets[].field_messages", text, own, kColumns, "messages"},
    {"datasets[].field_tools", text, own, kColumns, "tools"},
    {"datasets[].field_chosen", text, own, kColumns, "chosen"},
    {"datasets[].field_rejected", text, own, kColumns, "rejected"},
    {"datasets[].field_human", text, refused, "", kKeys},
    {"datasets[].field_model", text, refused, "", kKeys},
    {"datasets[].message_field_role", text, refused_but, "role, from", kKeys},
    {"datasets[].message_field_content", text, refused_but, "content, value", kKeys},
    {"datasets[].message_property_mappings.role", text, refused_but, "role, from", kKeys},
    {"datasets[].message_property_mappings.content", text, refused_but, "content, value", kKeys},
    {"datasets[].message_field_training", text, refused_but, "train", "ft reads train: true or false"},
    {"datasets[].message_field_training_detail", text, refused, "",
     "write the content as parts with train: true or false"},
    {"datasets[].field_thinking", text, refused_but, "reasoning_content",
     "a template reads the rows' own key"},
    {"datasets[].template_thinking_key", text, refused_but, "reasoning_content",
     "a template reads the rows' own key"},
    {"datasets[].split_thinking", boolean, own, "data.reasoning_content", "split, of all data sets"},
    {"datasets[].roles_to_train", texts, own, "data.roles_to_train", "of all data sets"},
    {"datasets[].train_on_eos", text, own, "data.train_on_eos", "of all data sets"},
    {"datasets[].train_on_eot", text, refused, "", "data.train_on_eos has the ends of turns"},
    {"datasets[].roles.user", texts, own, "", "user, human"},
    {"datasets[].roles.assistant", texts, own, "", "assistant, gpt, model"},
    {"datasets[].roles.system", texts, own, "", "system"},
    {"datasets[].roles.tool", texts, own, "", "tool"},
    {"datasets[].drop_system_message", boolean, refused_on, "", "write the rows without it"},
    {"datasets[].chat_template", text, own, "data.chat_template", "of all data sets"},
    {"datasets[].chat_template_jinja", text, own, "data.chat_template", "of all data sets"},
    {"datasets[].conversation", text, refused, "", "the chat template writes it"},
    {"datasets[].input_format", text, refused, "", "the type of the rows says it"},
    {"datasets[].input_transform", text, refused, "", "ft runs no Python"},
    {"datasets[].shards", whole, own, "data.datasets[].weight",
     "one of n parts: as many rows, chosen at random"},
    {"datasets[].shards_idx", whole, no_effect, "", "the rows are chosen at random"},
    {"datasets[].preprocess_shards", whole, no_effect, "", "ft tokenizes on threads"},
    {"datasets[].skip", whole, refused, "", "ft begins with the first row; write the others into a file"},
    {"datasets[].logprobs_field", text, refused, "", "that is kd_trainer's"},
    {"datasets[].temperature", number, refused, "", "that is kd_trainer's"},
    {"datasets[].step_separator", text, refused, "", "ft scores complete answers"},
    {"datasets[].max_completion_length", whole, refused, "", "ft scores complete answers"},
    {"datasets[].train_on_last_step_only", boolean, refused_on, "", "ft scores complete answers"},
    {"datasets[].length", whole, refused, "", "ft has no synthetic data"},
    {"datasets[].sequence_length", whole, refused, "", "ft has no synthetic data"},
    {"datasets[].min_input_id", whole, refused, "", "ft has no synthetic data"},
    {"datasets[].max_input_id", whole, refused, "", "ft has no synthetic data"},
    {"datasets[].seed", whole, refused, "", "ft has no synthetic data"},
    {"test_datasets", any, own, "data.eval_datasets", "each as one of datasets"},
    {"pretraining_dataset", any, own, "data.datasets", "with data.streaming; each as one of datasets"},
    {"streaming", boolean, same, "data.streaming", ""},
    {"streaming_multipack_buffer_size", whole, same, "data.shuffle_buffer_size", "samples"},
    {"pretrain_multipack_buffer_size", whole, same, "data.shuffle_buffer_size", "samples"},
    {"pretrain_multipack_attn", boolean, no_effect, "", "samples in a pack never see each other"},
    {"pretraining_sample_concatenation", boolean, no_effect, "", "sample_packing says it"},
    {"train_on_inputs", boolean, same, "data.train_on_inputs", ""},
    {"chat_template", text, own, "data.chat_template", "names of ft's formats; else the model's own"},
    {"chat_template_jinja", text, same, "data.chat_template", "a file beside the tokenizer, or a template"},
    {"chat_template_kwargs", any, same, "data.chat_template_kwargs", ""},
    {"default_system_message", text, refused, "", "write it into the rows"},
    {"eot_tokens", texts, no_effect, "", "the chat template shows which tokens end a turn"},
    {"dataset_prepared_path", text, same, "data.dataset_prepared_path", ""},
    {"dataset_processes", whole, same, "data.preprocessing_num_workers", "threads"},
    {"dataset_num_proc", whole, same, "data.preprocessing_num_workers", "threads"},
    {"dataset_exact_deduplication", boolean, refused_on, "",
     "ft data filter --exact writes the data without repeated rows"},
    {"dataset_keep_in_memory", boolean, no_effect, "", "samples are in memory unless they are streamed"},
    {"dataset_shard_num", whole, refused, "", "ft reads all files"},
    {"dataset_shard_idx", whole, no_effect, "", "that is dataset_shard_num's"},
    {"num_dataset_shards_to_save", whole, no_effect, "", "ft prepares one file"},
    {"shuffle_merged_datasets", boolean, no_effect, "", "each epoch has an order of its own: data.shuffle"},
    {"shuffle_before_merging_datasets", boolean, no_effect, "", "each epoch has an order of its own"},
    {"skip_prepare_dataset", boolean, no_effect, "", "ft tokenizes before the first step"},
    {"push_dataset_to_hub", text, no_effect, "", "ft sends nothing to services"},
};

// A row format of axolotl for examples, and ft's.
const std::map<std::string, const char*, std::less<>>& example_types() {
  static const std::map<std::string, const char*, std::less<>> types{{"alpaca", "alpaca"},
                                                                     {"completion", "text"},
                                                                     {"pretrain", "text"},
                                                                     {"sharegpt", "sharegpt"},
                                                                     {"chat_template", "messages"},
                                                                     {"chat_template.default", "messages"},
                                                                     {"chat_template.argilla", "messages"},
                                                                     {"input_output", "input_output"}};
  return types;
}

// One data set, and where it stands in the file: datasets[0].
class Source {
 public:
  Source(const Json& given, std::string at, const std::string& objective, Draft& draft)
      : given_(given), at_(std::move(at)), objective_(objective), draft_(draft) {}

  Json made() {
    set_path();
    if (given_.contains("revision") && given_["revision"].is_string()) made_["revision"] = given_["revision"];
    if (given_.contains("name") && given_["name"].is_string()) made_["name"] = given_["name"];
    if (has("split")) set_split(made_, text_of("split"), key("split"), draft_);
    if (has("shards") && given_["shards"].is_number() && given_["shards"] > 1)
      made_["weight"] = 1.0 / given_["shards"].get<double>();
    set_type();
    check_roles();
    return made_;
  }

 private:
  bool has(const char* name) const { return given_.contains(name) && !given_[name].is_null(); }
  std::string key(const std::string& name) const { return at_ + "." + name; }
  std::string text_of(const char* name, const std::string& otherwise = "") const {
    return has(name) && given_[name].is_string() ? given_[name].get<std::string>() : otherwise;
  }
  void column(const std::string& ours, const std::string& theirs) {
    if (ours != theirs) made_["columns"][ours] = theirs;
  }

  void set_path() {
    const std::string path = text_of("path");
    if (path.empty())
      throw UserError(Exit::config, str(at_, ".path is missing: a file or a data set's name"));
    made_["path"] = path;
    if (!has("data_files")) return;
    const Json files =
        given_["data_files"].is_array() ? given_["data_files"] : Json::array({given_["data_files"]});
    const bool loader =
        path == "json" || path == "csv" || path == "parquet" || path == "arrow" || path == "text";
    if (files.size() == 1 && files[0].is_string() && (loader || path_exists(path)))
      made_["path"] = loader ? files[0].get<std::string>() : join_path(path, files[0]);
    else
      draft_.reject(key("data_files"), files.size() == 1 ? "fetch the data set, and name the file as path"
                                                         : "make a data set of each file");
  }

  void set_type() {
    if (has("type") && given_["type"].is_object()) return set_user_defined(given_["type"]);
    const std::string type = text_of("type");
    if (objective_ == "grpo") {
      made_["type"] = "prompts";
      if (!type.empty())
        draft_.reject(key("type"), "a function in Python; the rows need prompt, and answer for rewards");
      return;
    }
    if (objective_ != "sft") return set_compared(type);
    const auto known = example_types().find(type.substr(0, type.find(':')));
    if (type.empty()) {
      made_["type"] = "tokenized";  // axolotl expects input_ids
    } else if (known == example_types().end() || type.find(':') != type.npos) {
      draft_.reject(key("type"), "ft has no such words around a prompt; its own formats are in docs/data.md");
    } else {
      made_["type"] = known->second;
    }
    const std::string made = made_.value("type", "");
    if (made == "text") column("text", text_of("field", text_of("text_column", "text")));
    if (made == "messages") column("messages", text_of("field_messages", "messages"));
    if (made == "sharegpt") column("conversations", text_of("field_messages", "conversations"));
    if (made == "messages" && has("field_tools")) column("tools", text_of("field_tools"));
  }

  // Rows whose answers are compared. axolotl writes the prompt's template itself; ft's rows are conversations
  // that the chat template writes, or texts.
  void set_compared(const std::string& type) {
    const bool labelled = objective_ == "kto",
               chats = type.starts_with("chat_template") || type.ends_with("argilla_chat");
    const bool scored = objective_ == "reward" && type.starts_with("bradley_terry.chat_template");
    made_["type"] = labelled ? "kto" : "preference";
    column("chosen", text_of("field_chosen", "chosen"));
    column("rejected", text_of("field_rejected", "rejected"));
    if (type.starts_with("chat_template.default")) column("prompt", text_of("field_messages", "messages"));
    if (labelled) made_.erase("columns");
    if (chats || scored || type == "passthrough") return;
    draft_.reject(key("type"),
                  str("ft writes no words around ", printable(type), "'s texts: write the rows as messages ",
                      labelled ? "(prompt, completion, label)" : "(prompt, chosen, rejected)"));
  }

  // Rows with a template of the user's own, {instruction} {input}.
  void set_user_defined(const Json& own) {
    const auto field = [&](const char* name, const char* otherwise) {
      const auto at = own.find(name);
      return at != own.end() && at->is_string() ? at->get<std::string>() : std::string(otherwise);
    };
    if (objective_ != "sft") return set_compared("user_defined");
    made_["type"] = "prompt_completion";
    made_["columns"] = {{"prompt", field("field_instruction", "instruction")},
                        {"completion", field("field_output", "output")}};
    const std::string format = field("format", "{instruction} {input} "),
                      bare = field("no_input_format", format.c_str());
    const bool words =
        (bare != "{instruction}" && bare != "{instruction} ") || !field("system_prompt", "").empty();
    if (words || format.find("{input}") != format.npos)
      draft_.reject(key("type"),
                    "ft writes no words of a user's own around a prompt: write them into the rows");
  }

  void check_roles() {
    if (!has("roles")) return;
    static const std::map<std::string, std::set<std::string>> read{
        {"user", {"user", "human"}},
        {"assistant", {"assistant", "gpt", "model", "chatgpt", "bing", "bard"}},
        {"system", {"system"}},
        {"tool", {"tool", "observation", "tool_response", "function_response"}}};
    for (const auto& [role, names] : given_["roles"].items()) {
      const auto known = read.find(role);
      const bool same = known != read.end() && names.is_array() &&
                        std::all_of(names.begin(), names.end(), [&](const Json& name) {
                          return name.is_string() && known->second.contains(name.get<std::string>());
                        });
      if (same)
        draft_.ignore(key("roles." + printable(role)), "ft reads these names so");
      else
        draft_.reject(key("roles." + printable(role)), "rename the roles in the rows");
    }
  }

  const Json& given_;
  std::string at_;
  const std::string& objective_;
  Draft& draft_;
  Json made_ = Json::object();
};

// Adds the rows of a list of data sets whose keys are those of `datasets`.
void judge_list(const std::string& name, const Json& list, Draft& draft) {
  Draft own;
  const SettingsText as_datasets{.value = {{"datasets", list}}, .lines = {}, .name = name};
  read_keys(as_datasets, joined({kData}), "axolotl", own);
  for (Row& row : own.rows) {
    row.flag.replace(0, std::string("datasets").size(), name);
    draft.rows.push_back(row);
  }
}

Json sources(const Json& list, const std::string& name, const std::string& objective, Draft& draft) {
  Json all = Json::array();
  for (std::size_t i = 0; i < list.size(); ++i)
    all.push_back(Source(list[i], str(name, "[", i, "]"), objective, draft).made());
  return all;
}

// Sets a setting of all data sets of keys that each has for itself. Different values are rejected.
void choose_for_all(const Json& list, const char* key, const std::string& to, Draft& draft) {
  Json first;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const Json value = list[i].value(key, Json());
    if (value.is_null()) continue;
    if (first.is_null())
      draft.set(to, first = value);
    else if (value != first)
      draft.reject(str("datasets[", i, "].", key),
                   str("another data set has another one, and ", to, " is of all"));
  }
}

void choose_template(const std::string& key, const std::string& name, Draft& draft) {
  if (name == "jinja") return draft.ignore(key, "chat_template_jinja is it");
  for (const char* own : {"llama3", "chatml", "gemma"})
    if (name == own) {
      draft.set("data.chat_template", name);
      return draft.map(key, "data.chat_template");
    }
  draft.erase("data.chat_template");
  const bool default_of_model = name.starts_with("tokenizer_default");
  draft.map(key, "data.chat_template",
            default_of_model ? "null: the model's own" : "null: the model's own, of the same family");
  if (!default_of_model)
    draft.warnings.push_back(
        str("chat_template ", printable(name),
            " is axolotl's copy of a family's template; ft takes the one in the model's folder"));
}

// axolotl cuts texts that are longer than sequence_len into pieces, and leaves longer samples of other
// types out.
void choose_packing(const Given& given, const std::string& objective, const Json& train, Draft& draft) {
  const auto is_text = [](const Json& source) { return source.value("type", "") == "text"; };
  const bool packs = given.on("sample_packing");
  if (given.has("sample_packing") && objective != "sft")
    draft.ignore("sample_packing", "pairs are not packed: there is no padding");
  else if (given.has("sample_packing"))
    draft.set("data.packing", packs);
  if (std::none_of(train.begin(), train.end(), is_text)) return;
  if (packs && std::all_of(train.begin(), train.end(), is_text)) {
    draft.set("data.packing_strategy", "bfd_split");
    draft.set("data.truncation", "keep_start");
  } else {
    draft.warnings.emplace_back(
        "axolotl cuts texts longer than sequence_len into pieces; ft does so if all data are texts and "
        "sample_packing is on, and leaves them out otherwise (data.truncation)");
  }
}

// Returns a data set that is given by its name, or a mapping, as a list.
Json as_list(const Json& value) {
  if (value.is_string()) return Json::array({{{"path", value}}});
  return value.is_array() ? value : Json::array({value});
}

}  // namespace

std::span<const Flag> data_keys() { return kData; }

void choose_data(const SettingsText& file, const Given& given, Draft& draft) {
  const Json* type = draft.find("objective.type");
  const std::string objective = type ? type->get<std::string>() : "sft";
  const Json list = file.value.value("datasets", Json::array());
  Json train = list.is_array() ? sources(list, "datasets", objective, draft) : Json::array();
  if (given.has("pretraining_dataset")) {
    Json more = as_list(given.at("pretraining_dataset"));
    for (Json& source : more)
      if (source.is_object() && !source.contains("type")) source["type"] = "pretrain";
    judge_list("pretraining_dataset", more, draft);
    for (Json& source : sources(more, "pretraining_dataset", objective, draft)) train.push_back(source);
    draft.set("data.streaming", true, true);
  }
  if (train.empty()) throw UserError(Exit::config, "datasets is missing: the data to train on");
  draft.set("data.datasets", train);
  if (given.has("test_datasets")) {
    const Json held_out = as_list(given.at("test_datasets"));
    judge_list("test_datasets", held_out, draft);
    draft.set("data.eval_datasets", sources(held_out, "test_datasets", objective, draft));
    draft.erase("data.val_set_size");
  }
  if (list.is_array()) {
    choose_for_all(list, "roles_to_train", "data.roles_to_train", draft);
    choose_for_all(list, "train_on_eos", "data.train_on_eos", draft);
    choose_for_all(list, "chat_template_jinja", "data.chat_template", draft);
  }
  for (std::size_t i = 0; list.is_array() && i < list.size(); ++i)
    if (list[i].value("split_thinking", Json()) == true) draft.set("data.reasoning_content", "split");
  for (std::size_t i = 0; list.is_array() && i < list.size(); ++i)
    if (list[i].value("chat_template", Json()).is_string())
      choose_template(str("datasets[", i, "].chat_template"), list[i]["chat_template"], draft);
  if (given.has("chat_template")) choose_template("chat_template", given.text("chat_template"), draft);
  const std::string longer = given.text("excess_length_strategy");
  if (longer == "drop") draft.set("data.truncation", "drop", true);
  if (longer == "truncate") draft.set("data.truncation", "keep_start");
  if (longer == "raise") draft.set("data.truncation", "error");
  if (given.on("curriculum_sampling")) draft.set("data.shuffle", false);
  choose_packing(given, objective, train, draft);
  if (const Json tokens = given.json("tokens"); tokens.is_array())
    draft.set("data.new_tokens", tokens);
  else if (!tokens.is_null())
    draft.reject("tokens", "ft takes the tokenizer's special tokens; name them in tokenizer_config.json");
}

}  // namespace ft::translate::axolotl
