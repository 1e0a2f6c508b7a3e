#include "app/assembly/reward_model.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "app/assembly/vocabulary.h"
#include "data/tokenizers/tokenizer.h"
#include "engine/files/file.h"
#include "engine/files/json.h"
#include "models/text_config.h"

namespace ft {
namespace {

// Returns the tokenizer's padding; empty: the model has no tokenizer, or it has no padding.
std::optional<std::int32_t> tokenizer_padding(const std::string& folder) {
  return has_tokenizer(folder) ? make_tokenizer(folder)->pad() : std::nullopt;
}

// Returns a token id in config.json, the first if it is a list; empty: there is no valid id.
std::optional<std::int32_t> token(const Json& config, const char* key) {
  const auto at = config.find(key);
  if (at == config.end()) return {};
  const Json& id = at->is_array() && !at->empty() ? at->front() : *at;
  if (!id.is_number_integer() || id < 0 || id > INT32_MAX) return {};
  return id.get<std::int32_t>();
}

}  // namespace

std::string model_stem(const ModelInfo& info) {
  const std::string& name = info.architecture;
  const std::string stem = name.substr(0, std::min(name.find("For"), name.find("LMHead")));
  // The name without "Text" is that of the model with images.
  return stem.starts_with("Qwen3_5") || stem == "Gemma3" || stem == "Gemma4" ? stem + "Text" : stem;
}

void make_reward_model(MadeModel& made, std::int64_t scores) {
  constexpr std::array kWithout{"qwen3_5_moe", "glm4_moe", "gemma4"};
  if (std::ranges::any_of(kWithout, [&](const char* m) { return made.info.model_type.starts_with(m); }))
    throw UserError(Exit::config, str("objective.type: transformers has no ", made.info.model_type,
                                      " model that gives scores; choose another model"));
  made.model->vocabulary().score_instead("score", scores);
  made.info.architecture = model_stem(made.info) + "ForSequenceClassification";
  made.info.head = "score";
  made.info.never_quantized.emplace_back("score");
  made.info.tied_head = false;
}

void train_score(lora::LoraConfig& c, const std::string& head, const std::string& task_type) {
  std::vector<std::string> whole = c.modules_to_save.value_or(std::vector<std::string>{});
  std::erase(whole, "classifier");
  std::erase(whole, "score");
  whole.push_back(head);
  c.modules_to_save = whole;
  c.task_type = task_type;
}

std::int32_t padding_token(const BaseModelConfig& model) {
  if (const auto id = tokenizer_padding(model.tokenizer())) return *id;
  const std::string file = join_path(model.folder(), "config.json");
  const JsonObject text = text_settings(JsonObject::read(file));
  const Json& config = text.json();
  for (const char* key : {"pad_token_id", "eos_token_id"})
    if (const auto id = token(config, key)) return *id;
  throw UserError(Exit::input, file +
                                   ": has neither pad_token_id nor eos_token_id, so that nothing says where "
                                   "an answer to be scored ends");
}

std::string reward_config(const std::string& config_json, const std::string& architecture,
                          std::int32_t padding) {
  Json j = Json::parse(config_json);
  j["architectures"] = {architecture};
  j["id2label"] = {{"0", "LABEL_0"}};
  j["label2id"] = {{"LABEL_0", 0}};
  j["pad_token_id"] = padding;
  return json_text(j) + "\n";
}

}  // namespace ft
