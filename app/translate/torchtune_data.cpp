// torchtune's data sets: the functions that make them, and their arguments.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "app/translate/names.h"
#include "app/translate/torchtune.h"

namespace ft::translate::torchtune {
namespace {

// A function that makes a data set: the type of its rows in ft, its usual source, and its usual
// train_on_input.
struct Maker {
  const char *name, *type, *source;
  bool trains_input = false;
};
constexpr Maker kMakers[] = {
    {"alpaca_dataset", "alpaca", "tatsu-lab/alpaca", true},
    {"alpaca_cleaned_dataset", "alpaca", "yahma/alpaca-cleaned", true},
    {"instruct_dataset", "alpaca_chat", ""},
    {"chat_dataset", "messages", ""},
    {"text_completion_dataset", "text", "", true},
    {"slimorca_dataset", "sharegpt", "Open-Orca/SlimOrca-Dedup"},
    {"preference_dataset", "preference", ""},
    {"stack_exchange_paired_dataset", "preference", "lvwerra/stack-exchange-paired"},
    {"hh_rlhf_helpful_dataset", "preference", "RLHFlow/HH-RLHF-Helpful-standard"},
};

// A tokenizer that writes roles into a text, and ft's format of that name; "": the model's own template.
struct Format {
  const char *tokenizer, *chat_template;
};
constexpr Format kFormats[] = {{"llama3_tokenizer", "llama3"},  {"qwen2_tokenizer", "chatml"},
                               {"qwen2_5_tokenizer", "chatml"}, {"qwen3_tokenizer", ""},
                               {"phi3_mini_tokenizer", ""},     {"phi4_tokenizer", ""},
                               {"llama4_tokenizer", ""}};

const Format* format_of(const Given& given) {
  const std::string name = last_part(given.text("tokenizer._component_"));
  const auto at = std::find_if(std::begin(kFormats), std::end(kFormats),
                               [&](const Format& f) { return name == f.tokenizer; });
  return at == std::end(kFormats) ? nullptr : at;
}

const Maker& maker_of(const Given& given, const std::string& block) {
  const std::string name = last_part(given.text(block + "._component_"));
  for (const Maker& maker : kMakers)
    if (name == maker.name) return maker;
  std::string all;
  for (const Maker& maker : kMakers) all += (all.empty() ? "" : ", ") + std::string(maker.name);
  throw UserError(Exit::config, str(block, "._component_: ft does not know the rows of ", printable(name),
                                    "; it knows those of ", all));
}

void rename(Json& made, const Json& map, const std::string& theirs, const std::string& ours) {
  if (map.is_object() && map.contains(theirs) && map[theirs].is_string() && map[theirs] != ours)
    made["columns"][ours] = map[theirs];
}

Json source_of(const Given& given, const std::string& block, const Maker& maker, Draft& draft) {
  std::string path = given.text(block + ".source", maker.source), type = maker.type;
  if (path.empty()) throw UserError(Exit::config, str(block, ".source is missing: the data to train on"));
  if (given.has(block + ".data_files")) {
    if (path == "json" || path == "csv" || path == "parquet" || path == "text" || path == "arrow")
      path = given.text(block + ".data_files");
    else
      draft.reject(block + ".data_files", "fetch the data set, and name the file as source with data_files");
  }
  Json made{{"path", path}};
  for (const char* key : {"subset", "name"})
    if (given.has(block + "." + key)) made["name"] = given.at(block + "." + key);
  const Json map = given.json(block + ".column_map");
  const Format* format = format_of(given);
  if (type == "alpaca" && format) type = "alpaca_chat";  // Stanford's words, as the user's message
  if (type == "messages" && given.text(block + ".conversation_style", "sharegpt") == "sharegpt")
    type = "sharegpt";
  made["type"] = type;
  const std::string list =
      given.text(block + ".conversation_column", type == "sharegpt" ? "conversations" : "messages");
  if (type == "sharegpt" && list != "conversations") made["columns"]["conversations"] = list;
  if (type == "messages" && list != "messages") made["columns"]["messages"] = list;
  if (const std::string column = given.text(block + ".column", "text"); type == "text" && column != "text")
    made["columns"]["text"] = column;
  if (type == "alpaca" || std::string(maker.name).starts_with("alpaca"))
    for (const char* name : {"instruction", "input", "output"}) rename(made, map, name, name);
  if (std::string(maker.name) == "instruct_dataset") {
    made["columns"] = {// the rows' input is the instruction, and they have no second part
                       {"instruction", "input"},
                       {"input", ""}};
    rename(made, map, "input", "instruction");
    rename(made, map, "output", "output");
    draft.set("data.prompt_template", "none");
  }
  if (std::string(maker.name) == "stack_exchange_paired_dataset") {
    made["columns"] = {{"prompt", "question"}, {"chosen", "response_j"}, {"rejected", "response_k"}};
    draft.reject(block + "._component_",
                 "it writes \"Question: \" and \"Answer: \" around a prompt: write them into the rows");
  }
  if (type == "preference")
    for (const char* name : {"chosen", "rejected", "prompt"}) rename(made, map, name, name);
  return made;
}

// Returns the share of the rows behind "train[:95%]" if the other split is "train[95%:]", else 0.
double held_out_share(const std::string& first, const std::string& rest) {
  const std::size_t at = first.find("[:");
  if (at == first.npos || !first.ends_with("%]")) return 0;
  const std::string number = first.substr(at + 2, first.size() - at - 4);
  const std::optional<Json> percent = value_of(ValueKind::whole, number);
  if (!percent || *percent < 1 || *percent > 99) return 0;
  if (rest != first.substr(0, at) + "[" + number + "%:]") return 0;
  return (100 - percent->get<int>()) / 100.0;
}

void choose_held_out(const Given& given, Json& train, Draft& draft) {
  const std::string split = given.text("dataset.split", "train"),
                    rest = given.text("dataset_val.split", "train");
  const bool validates = given.has("dataset_val._component_");
  const bool evaluates = given.number("run_val_every_n_steps", 0) > 0;
  const double share = validates ? held_out_share(split, rest) : 0;
  if (share > 0) {
    if (const std::string name = split.substr(0, split.find('[')); name != "train") train["split"] = name;
    draft.set("data.val_set_size", share);
    draft.map("dataset.split", "data.val_set_size", "the held-out rows are chosen at random");
    draft.map("dataset_val.split", "data.val_set_size");
  } else {
    if (split != "train") set_split(train, split, "dataset.split", draft);
    if (validates) {
      Json held_out = source_of(given, "dataset_val", maker_of(given, "dataset_val"), draft);
      if (rest != "train") set_split(held_out, rest, "dataset_val.split", draft);
      draft.set("data.eval_datasets", Json::array({held_out}));
    }
  }
  if (!evaluates) return;
  draft.set("evaluation.eval_strategy", "steps");
  draft.set("evaluation.eval_steps", given.at("run_val_every_n_steps"));
}

}  // namespace

void choose_data(const Given& given, Draft& draft) {
  const Maker& maker = maker_of(given, "dataset");
  Json train = source_of(given, "dataset", maker, draft);
  choose_held_out(given, train, draft);
  draft.set("data.datasets", Json::array({train}));
  const Format* format = format_of(given);
  if (format && *format->chat_template && std::string(maker.type) != "text")
    draft.set("data.chat_template", format->chat_template);
  else if (format && std::string(maker.type) != "text")
    draft.map("tokenizer._component_", "data.chat_template", "null: the model's own");
  else
    draft.ignore("tokenizer._component_", "it writes no roles");
  if (std::string(maker.type) != "preference")
    draft.otherwise("dataset.train_on_input", "data.train_on_inputs", maker.trains_input);
  if (const std::string strategy = given.text("dataset.masking_strategy"); strategy == "train_on_all")
    draft.set("data.train_on_inputs", true);
  else if (strategy == "train_on_assistant")
    draft.set("data.train_on_inputs", false);
  else if (!strategy.empty())
    draft.reject("dataset.masking_strategy", "ft trains all messages of data.roles_to_train, or everything");
  if (given.on("dataset.split_across_pack")) draft.set("data.packing_strategy", "wrapped");
}

}  // namespace ft::translate::torchtune
