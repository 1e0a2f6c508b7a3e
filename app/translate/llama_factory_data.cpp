// LLaMA-Factory's data sets: dataset_info.json, and the columns and roles of rows.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "app/translate/llama_factory.h"
#include "app/translate/names.h"
#include "engine/core/suggest.h"
#include "engine/files/file.h"

namespace ft::translate::llama_factory {
namespace {

constexpr const char* kInfo = "dataset_info.json";

// dataset_info.json, and its folder.
struct Info {
  std::string folder;
  Json entries;
};

Info find_info(const SettingsText& file, const Given& given) {
  const std::string named = given.text("dataset_dir", "data");
  if (named.starts_with("REMOTE:") || named == "ONLINE")
    throw UserError(Exit::config,
                    str("dataset_dir: ", printable(named), " is on a hub: ft pull --dataset NAME ",
                        "fetches it; give the folder of its ", kInfo));
  const std::string beside = folder_of(file.name);
  for (const std::string& folder : {named, join_path(beside, named), beside}) {
    const std::string path = join_path(folder, kInfo);
    if (path_exists(path)) return {folder, read_json(path, {.unique_keys = false, .exit = Exit::config})};
  }
  throw UserError(Exit::config,
                  str("dataset: ", kInfo, " describes the data sets, and it is neither in ", printable(named),
                      " nor beside ", printable(file.name), "; give its folder: dataset_dir"));
}

std::string text_of(const Json& object, const char* name, const std::string& otherwise = "") {
  const auto at = object.find(name);
  return at != object.end() && at->is_string() ? at->get<std::string>() : otherwise;
}

class Entry {
 public:
  Entry(std::string name, const Json& entry, const std::string& folder, std::string stage, Draft& draft)
      : name_(std::move(name)), entry_(entry), folder_(folder), stage_(std::move(stage)), draft_(draft) {
    if (!entry.is_object())
      throw UserError(Exit::config, str(kInfo, ": ", printable(name_), " must be an object"));
    columns_ = entry.value("columns", Json::object());
    tags_ = entry.value("tags", Json::object());
    if (!columns_.is_object() || !tags_.is_object())
      throw UserError(Exit::config, str(kInfo, ": ", printable(name_), ": columns and tags must be objects"));
  }

  Json made() {
    for (const char* medium : {"images", "videos", "audios"})
      if (columns_.contains(medium))
        throw UserError(Exit::config,
                        str("dataset: ", printable(name_), " has ", medium, ", and ft trains on text only"));
    set_path();
    const std::string formatting = text_of(entry_, "formatting", "alpaca");
    if (formatting == "alpaca")
      set_instructions();
    else
      set_messages(formatting);
    if (columns_.contains("history")) reject("column history: write the earlier turns as messages");
    return made_;
  }

 private:
  void reject(const std::string& why) { draft_.reject(str(kInfo, ": ", printable(name_)), why); }
  void column(const std::string& ours, const std::string& theirs) {
    if (ours != theirs) made_["columns"][ours] = theirs;
  }

  void set_path() {
    const std::string hub = text_of(entry_, "hf_hub_url"), local = text_of(entry_, "file_name");
    if (!hub.empty())
      made_["path"] = hub;
    else if (!local.empty())
      made_["path"] = join_path(folder_, local);
    else
      throw UserError(Exit::config, str(kInfo, ": ", printable(name_),
                                        " has neither file_name nor hf_hub_url, which ft can read"));
    if (const std::string name = text_of(entry_, "subset"); !name.empty()) made_["name"] = name;
    if (entry_.contains("folder")) reject("folder: name the folder's files as file_name");
    if (const std::string split = text_of(entry_, "split", "train"); split != "train") made_["split"] = split;
    if (entry_.contains("num_samples") && entry_["num_samples"].is_number_integer())
      made_["max_samples"] = entry_["num_samples"];
  }

  // Rows of instruction, input and output, which the template writes as a question and its answer.
  void set_instructions() {
    const std::string prompt = text_of(columns_, "prompt", "instruction");
    if (stage_ == "pt") {
      made_["type"] = "text";
      return column("text", prompt);
    }
    if (stage_ == "ppo") {
      made_["type"] = "prompts";
      column("prompt", prompt);
      return reject(
          "its prompts are texts, which ft writes without the chat template: write them as messages");
    }
    if (stage_ != "sft") {
      made_["type"] = stage_ == "kto" ? "kto" : "preference";
      column("prompt", prompt);
      if (stage_ == "kto") {
        column("completion", text_of(columns_, "response", "output"));
        column("label", text_of(columns_, "kto_tag", "label"));
      } else {
        column("chosen", text_of(columns_, "chosen", "chosen"));
        column("rejected", text_of(columns_, "rejected", "rejected"));
      }
      return reject(
          "its answers are texts, which ft compares without the chat template: write them as messages");
    }
    made_["type"] = "alpaca_chat";
    column("instruction", prompt);
    column("input", text_of(columns_, "query", "input"));
    column("output", text_of(columns_, "response", "output"));
    if (columns_.contains("system")) column("system", text_of(columns_, "system", "system"));
  }

  // Rows of messages. LLaMA-Factory's defaults are ShareGPT's names.
  void set_messages(const std::string& formatting) {
    const bool openai = formatting == "openai";
    const std::string role = text_of(tags_, "role_tag", openai ? "role" : "from");
    const std::string content = text_of(tags_, "content_tag", openai ? "content" : "value");
    const std::string list = text_of(columns_, "messages", openai ? "messages" : "conversations");
    const bool both = (role == "role" && content == "content") || (role == "from" && content == "value");
    if (!both) reject("ft reads messages with role and content, or from and value");
    for (const char* tag : {"user_tag", "assistant_tag", "observation_tag", "function_tag", "system_tag"})
      if (const std::string word = text_of(tags_, tag, "user"); !is_role(word))
        reject(str(tag, ": ft reads the usual roles, and not ", printable(word)));
    if (stage_ == "kto") {
      made_["type"] = "kto";
      return reject("rename its columns: kto takes prompt and completion, lists of messages, and label");
    }
    if (stage_ == "ppo") {
      made_["type"] = "prompts";
      return column("prompt", list);
    }
    if (stage_ == "dpo" || stage_ == "rm") {
      made_["type"] = "preference";
      column("prompt", list);
      column("chosen", text_of(columns_, "chosen", "chosen"));
      return column("rejected", text_of(columns_, "rejected", "rejected"));
    }
    made_["type"] = role == "from" ? "sharegpt" : "messages";
    column(role == "from" ? "conversations" : "messages", list);
    if (columns_.contains("tools")) column("tools", text_of(columns_, "tools", "tools"));
  }

  static bool is_role(const std::string& word) {
    for (const char* known :
         {"user", "human", "assistant", "gpt", "model", "chatgpt", "system", "tool", "observation",
          "function_call", "tool_call", "tool_response", "function_response"})
      if (word == known) return true;
    return false;
  }

  std::string name_;
  const Json& entry_;
  const std::string& folder_;
  std::string stage_;
  Draft& draft_;
  Json columns_, tags_, made_ = Json::object();
};

Json sources(const Json& names, const Info& info, const Given& given, Draft& draft) {
  Json all = Json::array();
  std::vector<std::string> known;
  for (const auto& [name, entry] : info.entries.items()) known.push_back(name);
  for (const std::string& name : comma_separated(names.is_string() ? names.get<std::string>() : "")) {
    if (!info.entries.contains(name)) {
      const std::string near = nearest(name, known);
      throw UserError(Exit::config, str("dataset: ", join_path(info.folder, kInfo), " has no ",
                                        printable(name), near.empty() ? "" : "; do you mean " + near + "?"));
    }
    Json source = Entry(name, info.entries[name], info.folder, given.text("stage", "sft"), draft).made();
    if (given.has("max_samples")) source["max_samples"] = given.at("max_samples");
    all.push_back(source);
  }
  return all;
}

void choose_template(const Given& given, Draft& draft) {
  if (!given.has("template")) return;
  const std::string name = given.text("template");
  for (const char* own : {"llama2", "llama3", "chatml", "mistral", "zephyr", "gemma"})
    if (name == own) return draft.set("data.chat_template", name);
  draft.map("template", "data.chat_template", "null: the model's own");
  draft.warnings.push_back(str("template ", printable(name),
                               " is LLaMA-Factory's; ft takes the one in the model's "
                               "folder, which its family's template copies"));
}

// Returns names as LLaMA-Factory reads them: a text with commas, or a list.
Json names_of(const Json& value) {
  if (!value.is_array()) return value;
  std::string all;
  for (const Json& name : value)
    all += (all.empty() ? "" : ",") + (name.is_string() ? name.get<std::string>() : "");
  return all;
}

}  // namespace

void choose_data(const SettingsText& file, const Given& given, Draft& draft) {
  const Json train = names_of(given.json("dataset")), held_out = names_of(given.json("eval_dataset"));
  if (!train.is_string() && !held_out.is_string())
    throw UserError(Exit::config, "dataset is missing: the data to train on");
  const Info info = find_info(file, given);
  if (!info.entries.is_object()) throw UserError(Exit::config, str(kInfo, " must be an object"));
  const Json first = sources(train.is_string() ? train : held_out, info, given, draft);
  draft.set("data.datasets", first);
  if (held_out.is_string()) draft.set("data.eval_datasets", sources(held_out, info, given, draft));
  const std::string stage = given.text("stage", "sft");
  if (std::any_of(first.begin(), first.end(),
                  [](const Json& s) { return s.value("type", "") == "alpaca_chat"; }))
    draft.set("data.prompt_template", "none");
  choose_template(given, draft);
  if (given.has("disable_shuffling")) draft.set("data.shuffle", !given.on("disable_shuffling"));
  if (given.has("enable_thinking") && stage != "pt")
    draft.set("data.chat_template_kwargs", {{"enable_thinking", given.at("enable_thinking")}});
  else if (given.has("enable_thinking"))
    draft.ignore("enable_thinking", "texts have no chat template");
  const bool packs =
      given.on("neat_packing") || given.on("use_packed_sequences") || given.on("packing", stage == "pt");
  if (stage == "pt" && packs) draft.set("data.packing_strategy", "wrapped");
  if (stage == "sft" || stage == "pt")
    draft.set("data.packing", packs);
  else if (given.has("packing"))
    draft.ignore("packing", "pairs are not packed: there is no padding");
}

}  // namespace ft::translate::llama_factory
