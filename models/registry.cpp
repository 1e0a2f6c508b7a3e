#include "models/registry.h"

#include <algorithm>
#include <array>

#include "models/gemma/family.h"
#include "models/gpt2/family.h"
#include "models/gpt_neox/family.h"
#include "models/granite/family.h"
#include "models/llama/family.h"
#include "models/moe/family.h"
#include "models/olmo2/family.h"
#include "models/opt/family.h"
#include "models/phi3/family.h"
#include "models/smollm3/family.h"
#include "models/t5/family.h"

namespace ft {
namespace {

struct Entry {
  const char *model_type, *architecture;
  const Family* family;
};
constexpr std::array kFamilies = {
    Entry{"llama", "LlamaForCausalLM", &llama::kFamily},
    Entry{"mistral", "MistralForCausalLM", &llama::kFamily},
    Entry{"qwen2", "Qwen2ForCausalLM", &llama::kFamily},
    Entry{"qwen3", "Qwen3ForCausalLM", &llama::kFamily},
    Entry{"gemma2", "Gemma2ForCausalLM", &gemma::kFamily},
    Entry{"gemma3_text", "Gemma3ForCausalLM", &gemma::kFamily},
    Entry{"phi3", "Phi3ForCausalLM", &phi3::kFamily},
    Entry{"granite", "GraniteForCausalLM", &granite::kFamily},
    Entry{"olmo2", "Olmo2ForCausalLM", &olmo2::kFamily},
    Entry{"smollm3", "SmolLM3ForCausalLM", &smollm3::kFamily},
    Entry{"opt", "OPTForCausalLM", &opt::kFamily},
    Entry{"gpt2", "GPT2LMHeadModel", &gpt2::kFamily},
    Entry{"gpt_neox", "GPTNeoXForCausalLM", &gpt_neox::kFamily},
    Entry{"mixtral", "MixtralForCausalLM", &moe::kFamily},
    Entry{"qwen2_moe", "Qwen2MoeForCausalLM", &moe::kFamily},
    Entry{"qwen3_moe", "Qwen3MoeForCausalLM", &moe::kFamily},
    Entry{"olmoe", "OlmoeForCausalLM", &moe::kFamily},
    Entry{"t5", "T5ForConditionalGeneration", &t5::kFamily},
    Entry{"mt5", "MT5ForConditionalGeneration", &t5::kFamily},
};

// Null: none that ft knows.
const Entry* find(const JsonObject& config) {
  const std::string type = config.text("model_type");
  const auto at =
      std::find_if(kFamilies.begin(), kFamilies.end(), [&](const Entry& e) { return type == e.model_type; });
  return at == kFamilies.end() ? nullptr : &*at;
}

const Entry& entry_of(const std::string& config_json) {
  const JsonObject config = JsonObject::read(config_json);
  if (const Entry* found = find(config)) return *found;
  std::string known;
  for (const Entry& e : kFamilies) known += (known.empty() ? "" : ", ") + std::string(e.model_type);
  throw UserError(Exit::input, str(printable(config.file()), ": ", printable(config.text("model_type"), 60),
                                   " models are not supported; supported are ", known, " (model_type)"));
}

}  // namespace

MadeModel make_model(const std::string& config_json, DType dtype) {
  const Entry& entry = entry_of(config_json);
  MadeModel made = entry.family->make(config_json, dtype);
  made.info.model_type = entry.model_type;
  made.info.architecture = entry.architecture;
  return made;
}

GgufModel make_gguf_model(const std::string& config_json) {
  return entry_of(config_json).family->gguf(config_json);
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
