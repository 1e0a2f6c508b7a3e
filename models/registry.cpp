#include "models/registry.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "models/deepseek/family.h"
#include "models/gemma/family.h"
#include "models/gemma4/family.h"
#include "models/gpt2/family.h"
#include "models/gpt_neox/family.h"
#include "models/gpt_oss/family.h"
#include "models/granite/family.h"
#include "models/llama/family.h"
#include "models/moe/family.h"
#include "models/olmo2/family.h"
#include "models/opt/family.h"
#include "models/phi3/family.h"
#include "models/qwen3_next/family.h"
#include "models/smollm3/family.h"
#include "models/t5/family.h"
#include "models/tables.h"

namespace ft {
namespace {

struct Entry {
  const char *model_type, *architecture;
  const Family* family;
  const char* token_classifier = "";  // see ModelInfo
};
constexpr const char *kScore = "score", *kClassifier = "classifier";
constexpr std::array kFamilies = {
    Entry{"llama", "LlamaForCausalLM", &llama::kFamily, kScore},
    Entry{"mistral", "MistralForCausalLM", &llama::kFamily, kScore},
    Entry{"qwen2", "Qwen2ForCausalLM", &llama::kFamily, kScore},
    Entry{"qwen3", "Qwen3ForCausalLM", &llama::kFamily, kScore},
    Entry{"gemma2", "Gemma2ForCausalLM", &gemma::kFamily, kScore},
    Entry{"gemma3_text", "Gemma3ForCausalLM", &gemma::kFamily},
    Entry{"gemma4_text", "Gemma4ForCausalLM", &gemma4::kFamily},
    Entry{"gemma4", "Gemma4ForCausalLM", &gemma4::kNested},
    Entry{"phi3", "Phi3ForCausalLM", &phi3::kFamily, kScore},
    Entry{"granite", "GraniteForCausalLM", &granite::kFamily},
    Entry{"olmo2", "Olmo2ForCausalLM", &olmo2::kFamily},
    Entry{"smollm3", "SmolLM3ForCausalLM", &smollm3::kFamily, kScore},
    Entry{"opt", "OPTForCausalLM", &opt::kFamily},
    Entry{"gpt2", "GPT2LMHeadModel", &gpt2::kFamily, kClassifier},
    Entry{"gpt_neox", "GPTNeoXForCausalLM", &gpt_neox::kFamily, kClassifier},
    Entry{"mixtral", "MixtralForCausalLM", &moe::kFamily, kScore},
    Entry{"qwen2_moe", "Qwen2MoeForCausalLM", &moe::kFamily, kScore},
    Entry{"qwen3_moe", "Qwen3MoeForCausalLM", &moe::kFamily, kScore},
    Entry{"olmoe", "OlmoeForCausalLM", &moe::kFamily},
    Entry{"qwen3_next", "Qwen3NextForCausalLM", &qwen3_next::kFamily, kScore},
    Entry{"qwen3_5_text", "Qwen3_5ForCausalLM", &qwen3_next::kFamily},
    Entry{"qwen3_5", "Qwen3_5ForCausalLM", &qwen3_next::kFamily},
    Entry{"qwen3_5_moe_text", "Qwen3_5MoeForCausalLM", &qwen3_next::kFamily},
    Entry{"qwen3_5_moe", "Qwen3_5MoeForCausalLM", &qwen3_next::kFamily},
    Entry{"deepseek_v2", "DeepseekV2ForCausalLM", &deepseek::kFamily},
    Entry{"deepseek_v3", "DeepseekV3ForCausalLM", &deepseek::kFamily},
    Entry{"glm4_moe_lite", "Glm4MoeLiteForCausalLM", &deepseek::kFamily},
    Entry{"glm4_moe", "Glm4MoeForCausalLM", &deepseek::kFamily},
    Entry{"gpt_oss", "GptOssForCausalLM", &gpt_oss::kFamily},
    Entry{"t5", "T5ForConditionalGeneration", &t5::kFamily},
    Entry{"mt5", "MT5ForConditionalGeneration", &t5::kFamily},
};

// GGUF's architectures. Mixtral's architecture is llama with experts.
struct GgufEntry {
  const char* architecture;
  const Family *family, *with_experts = nullptr;
};
constexpr std::array kGgufArchitectures = {GgufEntry{"llama", &llama::kFamily, &moe::kFamily},
                                           GgufEntry{"qwen2", &llama::kFamily},
                                           GgufEntry{"qwen3", &llama::kFamily},
                                           GgufEntry{"gemma2", &gemma::kFamily},
                                           GgufEntry{"gemma3", &gemma::kFamily},
                                           GgufEntry{"phi3", &phi3::kFamily},
                                           GgufEntry{"granite", &granite::kFamily},
                                           GgufEntry{"olmo2", &olmo2::kFamily},
                                           GgufEntry{"smollm3", &smollm3::kFamily},
                                           GgufEntry{"gpt2", &gpt2::kFamily},
                                           GgufEntry{"gptneox", &gpt_neox::kFamily},
                                           GgufEntry{"qwen2moe", &moe::kFamily},
                                           GgufEntry{"qwen3moe", &moe::kFamily},
                                           GgufEntry{"olmoe", &moe::kFamily},
                                           GgufEntry{"qwen35", &qwen3_next::kFamily},
                                           GgufEntry{"qwen35moe", &qwen3_next::kFamily},
                                           GgufEntry{"qwen3next", &qwen3_next::kFamily},
                                           GgufEntry{"gemma4", &gemma4::kFamily},
                                           GgufEntry{"gpt-oss", &gpt_oss::kFamily},
                                           GgufEntry{"deepseek2", &deepseek::kFamily},
                                           GgufEntry{"glm4moe", &deepseek::kFamily},
                                           GgufEntry{"t5", &t5::kFamily}};

// Returns null if ft does not know the model_type.
const Entry* find(const std::string& model_type) {
  const auto at = std::ranges::find(kFamilies, model_type, &Entry::model_type);
  return at == kFamilies.end() ? nullptr : &*at;
}
const Entry* find(const JsonObject& config) { return find(config.text("model_type")); }

const Entry& entry_of(const std::string& config_json) {
  const JsonObject config = JsonObject::read(config_json);
  if (const Entry* found = find(config)) return *found;
  std::string known;
  for (const Entry& e : kFamilies) known += (known.empty() ? "" : ", ") + std::string(e.model_type);
  throw UserError(Exit::input, str(printable(config.file()), ": ", printable(config.text("model_type"), 60),
                                   " models are not supported; supported are ", known, " (model_type)"));
}

// Gives the head its own table if the files hold a table that differs from the embedding's, even if
// config.json says that they share one: as transformers does.
void untie_by_files(MadeModel& made, const std::string& config_json) {
  ModelInfo& info = made.info;
  if (!info.tied_head) return;
  StoredNames names = info.stored;
  std::erase(names.skip, info.head_weight());
  const auto weights = weights_beside(config_json, names);
  if (!weights || !differ(*weights, info.embedding, info.head_weight())) return;
  made.model->vocabulary().untie();
  EachParameter own([&](Parameter& p) {
    if (p.name == info.head_weight()) p.stored_as.clear();
  });
  made.model->visit(own);
  info.stored = std::move(names);
  info.tied_head = false;
  info.two_tables = true;
}

}  // namespace

MadeModel make_model(const std::string& config_json, DType dtype) {
  const Entry& entry = entry_of(config_json);
  MadeModel made = entry.family->make(config_json, dtype);
  made.info.model_type = entry.model_type;
  made.info.architecture = entry.architecture;
  made.info.token_classifier = entry.token_classifier;
  untie_by_files(made, config_json);
  return made;
}

GgufModel make_gguf_model(const std::string& config_json) {
  return entry_of(config_json).family->gguf(config_json);
}

Json read_gguf_config(const GgufKeyReader& keys) {
  const auto at = std::ranges::find(kGgufArchitectures, keys.architecture(), &GgufEntry::architecture);
  if (at == kGgufArchitectures.end()) {
    std::string known;
    for (const GgufEntry& e : kGgufArchitectures)
      known += (known.empty() ? "" : ", ") + std::string(e.architecture);
    keys.refuse(str("architecture ", printable(keys.architecture()), "; ft reads ", known, " from GGUF"));
  }
  const bool experts = at->with_experts && keys.real_or("expert_count", 0) > 0;
  Json config = (experts ? at->with_experts : at->family)->from_gguf(keys);
  const Entry* entry = find(config.at("model_type").get<std::string>());
  require(entry != nullptr, "a model_type that ft knows");
  config["architectures"] = {entry->architecture};
  return config;
}

std::optional<DecoderTokens> read_decoder_tokens(const std::string& config_json) {
  const JsonObject config = JsonObject::read(config_json);
  const Entry* entry = find(config);
  if (!entry || !entry->family->decoder_tokens) return std::nullopt;
  return entry->family->decoder_tokens(config);
}

std::vector<std::string> read_lora_targets(const std::string& config_json) {
  const Entry* entry = find(JsonObject::read(config_json));
  if (!entry) return {};
  return {entry->family->lora_targets.begin(), entry->family->lora_targets.end()};
}

}  // namespace ft
