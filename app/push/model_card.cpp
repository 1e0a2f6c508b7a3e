#include "app/push/model_card.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "app/screen/format.h"
#include "data/files/yaml.h"
#include "engine/core/error.h"
#include "engine/files/file.h"
#include "engine/files/hub_cache.h"
#include "engine/files/json.h"

namespace ft::hub {
namespace {

namespace fs = std::filesystem;

// Returns a JSON file of the folder; empty if it is missing or no JSON object.
std::optional<JsonObject> object_in(const fs::path& folder, const char* name) {
  const std::string path = (folder / name).string();
  if (!path_exists(path)) return {};
  try {
    JsonRules rules;
    rules.unique_keys = false;
    rules.non_finite = NonFinite::null;
    return JsonObject::read(path, rules);
  } catch (const UserError&) {
    return {};
  }
}

std::string text_in(const std::optional<JsonObject>& object, const char* key) {
  return object && object->is_text(key) ? object->text(key) : "";
}

std::optional<JsonObject> inner(const std::optional<JsonObject>& object, const char* key) {
  return object && object->is_object(key) ? std::optional(object->object(key)) : std::nullopt;
}

bool has_file_ending(const fs::path& folder, const std::string& ending) {
  std::error_code error;
  for (auto it = fs::directory_iterator(folder, error); !error && it != fs::directory_iterator();
       it.increment(error))
    if (it->path().filename().string().ends_with(ending)) return true;
  return false;
}

// Returns the licence in the base's card, if the hub's cache has it.
std::string license_of(const CardFacts& facts) {
  try {
    const auto folder = find_in_hub_cache(facts.cache, {HubKind::model, facts.base_model});
    const std::string card = folder ? (*folder / "README.md").string() : "";
    if (card.empty() || !path_exists(card)) return "";
    const Json license = read_yaml_key(front_matter(read_file(card, 1 << 20)), "license", card, 2);
    return license.is_string() ? license.get<std::string>() : "";
  } catch (const UserError&) {
    return "";
  }
}

// Returns the ids of the data sets that the run was trained on. Files of this machine are not named.
std::vector<std::string> datasets_of(const std::optional<JsonObject>& run) {
  std::vector<std::string> ids;
  const auto data = inner(run, "data");
  if (!data || !data->is_array("datasets")) return ids;
  for (const Json& entry : data->json().at("datasets")) {
    if (!entry.is_object() || !entry.contains("path") || !entry["path"].is_string()) continue;
    const std::string path = entry["path"].get<std::string>();
    if (is_hub_id(path) && path.find('/') != path.npos && !path_exists(path)) ids.push_back(path);
  }
  return ids;
}

// Writes a list of the header, with each item in quotes.
std::string yaml_list(const std::string& key, const std::vector<std::string>& items) {
  if (items.empty()) return "";
  std::string text = key + ":\n";
  for (const std::string& item : items) text += "- " + json_text(Json(item), -1) + "\n";
  return text;
}

struct Form {
  bool adapter, gguf;
  const char* noun() const { return adapter ? "adapter" : "model"; }
};

std::string header(const Form& form, const fs::path& folder, const CardFacts& facts,
                   const std::optional<JsonObject>& run) {
  const std::string base = facts.base_model, license = base.empty() ? "" : license_of(facts);
  std::vector<std::string> tags{"ft"};
  if (form.adapter) {
    const std::string type = text_in(object_in(folder, "adapter_config.json"), "peft_type");
    tags.push_back(type == "LORA" || type.empty() ? "lora" : show::one_line(type));
  }
  if (form.gguf) tags.emplace_back("gguf");
  const std::string objective = text_in(inner(run, "objective"), "type");
  if (!objective.empty()) tags.push_back(objective);
  std::string text = "---\n";
  if (!base.empty()) text += "base_model: " + json_text(Json(base), -1) + "\n";
  if (!base.empty())
    text += str("base_model_relation: ",
                form.adapter ? "adapter"
                : form.gguf  ? "quantized"
                             : "finetune",
                "\n");
  text += str("library_name: ", form.adapter ? "peft" : form.gguf ? "gguf" : "transformers", "\n");
  if (!license.empty()) text += "license: " + json_text(Json(license), -1) + "\n";
  text += yaml_list("datasets", datasets_of(run)) + yaml_list("tags", tags);
  return text + "---\n";
}

// Returns the table's rows about the training, as far as the files tell.
std::string training_rows(const fs::path& folder, const std::optional<JsonObject>& run) {
  std::string rows;
  const auto row = [&](const std::string& name, const std::string& value) {
    if (!value.empty()) rows += str("| ", name, " | ", show::one_line(value), " |\n");
  };
  const auto number = [](const std::optional<JsonObject>& object, const char* key) {
    return object && object->is_number(key) ? show::number(object->number(key)) : "";
  };
  row("objective", text_in(inner(run, "objective"), "type"));
  const auto adapter = object_in(folder, "adapter_config.json");
  row("rank of LoRA", number(adapter, "r"));
  row("lora_alpha", number(adapter, "lora_alpha"));
  const auto training = inner(run, "training");
  if (training && training->is_number("learning_rate"))
    row("learning rate", show::rate(training->number("learning_rate")));
  const auto state = object_in(folder, "trainer_state.json");
  row("steps", number(state, "global_step"));
  if (state && state->is_array("log_history")) {
    std::string loss, eval_loss;
    for (const Json& entry : state->json().at("log_history")) {
      if (!entry.is_object()) continue;
      if (entry.contains("loss") && entry["loss"].is_number()) loss = show::loss(entry["loss"].get<double>());
      if (entry.contains("eval_loss") && entry["eval_loss"].is_number())
        eval_loss = show::loss(entry["eval_loss"].get<double>());
    }
    row("last loss", loss);
    row("last loss on held-out data", eval_loss);
  }
  return rows.empty() ? "" : "\n## Training\n\n| | |\n|---|---|\n" + rows;
}

std::string usage(const Form& form, const CardFacts& facts) {
  const std::string base = facts.base_model.empty() ? "BASE_MODEL" : facts.base_model;
  std::string text = "\n## Use\n\n```\nft pull " + facts.id + "\n";
  if (form.adapter)
    text += str("ft pull ", base, "\nft chat --model ", base, " --adapter ", facts.id, "\n");
  else if (!form.gguf)
    text += "ft chat --model " + facts.id + "\n";
  return text + "```\n";
}

}  // namespace

std::string id_of_model(const std::string& name) {
  if (is_hub_id(name) && name.find('/') != name.npos && !path_exists(name)) return name;
  constexpr std::string_view kFolder = "models--";
  for (const fs::path& part : fs::path(name)) {
    std::string id = part.string();
    if (!id.starts_with(kFolder)) continue;
    id = id.substr(kFolder.size());
    if (const std::size_t dashes = id.find("--"); dashes != id.npos) id.replace(dashes, 2, "/");
    return is_hub_id(id) ? id : "";
  }
  return "";
}

std::string base_model_of(const fs::path& folder) {
  const std::string named = text_in(object_in(folder, "adapter_config.json"), "base_model_name_or_path");
  const std::string trained = text_in(inner(object_in(folder, "run.json"), "model"), "model_name_or_path");
  // A run's settings have the whole path of a base that the adapter names by a relative one.
  const bool is_path = !named.empty() && trained.ends_with("/" + named);
  const std::string config = text_in(object_in(folder, "config.json"), "_name_or_path");
  for (const std::string& name : {is_path ? std::string() : named, trained, config})
    if (const std::string id = id_of_model(name); !id.empty()) return id;
  return "";
}

std::string model_card(const fs::path& folder, const CardFacts& facts) {
  const Form form{
      .adapter = path_exists((folder / "adapter_config.json").string()),
      .gguf = !path_exists((folder / "config.json").string()) && has_file_ending(folder, ".gguf")};
  const auto run = object_in(folder, "run.json");
  std::string text = header(form, folder, facts, run);
  text += str("\n# ", facts.id.substr(facts.id.find('/') + 1), "\n\nThis ", form.noun(), " was ",
              form.gguf ? "made" : "trained", " with ft",
              facts.base_model.empty()
                  ? ""
                  : str(", from [", facts.base_model, "](https://huggingface.co/", facts.base_model, ")"),
              ".\n");
  return text + training_rows(folder, run) + usage(form, facts);
}

}  // namespace ft::hub
