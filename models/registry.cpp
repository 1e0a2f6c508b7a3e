#include "models/registry.h"

#include <algorithm>
#include <array>

#include "engine/io/json.h"
#include "models/llama/model.h"
#include "models/t5/model.h"

namespace ft {
namespace {

MadeModel make_llama(const std::string& path, DType dtype) {
  llama::Config c = llama::read_config(path);
  ModelInfo info{.vocab_size = c.vocab_size,
                 .initializer_range = c.initializer_range,
                 .tied_head = c.tie_word_embeddings};
  return {std::make_unique<llama::Llama>(std::move(c), dtype), info};
}

DecoderTokens decoder_tokens(const JsonObject& j) {
  const std::int64_t last = j.positive("vocab_size") - 1;
  DecoderTokens t;
  t.pad = static_cast<std::int32_t>(j.integer_or("pad_token_id", 0, 0, last));
  t.start = static_cast<std::int32_t>(j.integer_or("decoder_start_token_id", t.pad, 0, last));
  if (!j.has("eos_token_id")) return t;
  const std::vector<std::int64_t> ends = j.integers("eos_token_id");  // one, or a list
  if (ends.empty() || std::any_of(ends.begin(), ends.end(), [&](auto id) { return id < 0 || id > last; }))
    j.refuse("eos_token_id", str("a token id or a list of them, from 0 to ", last));
  t.end = static_cast<std::int32_t>(ends[0]);
  return t;
}

MadeModel make_t5(const std::string& path, DType dtype) {
  t5::Config c = t5::read_config(path);
  ModelInfo info{.vocab_size = c.vocab_size,
                 .decoder = decoder_tokens(JsonObject::read(path)),
                 .never_quantized = {"wo"},
                 .embedding = c.shared_name,
                 .tied_head = !c.own_head};
  for (const char* copy : {"shared.weight", "encoder.embed_tokens.weight", "decoder.embed_tokens.weight"})
    if (copy != c.shared_name) info.embedding_copies.emplace_back(copy);
  if (c.scale_outputs) info.head_scale = c.output_scale();
  return {std::make_unique<t5::T5>(std::move(c), dtype), info};
}

struct Family {
  const char *model_type, *architecture;
  MadeModel (*make)(const std::string& path, DType);
};
constexpr std::array kFamilies = {
    Family{"llama", "LlamaForCausalLM", make_llama},
    Family{"mistral", "MistralForCausalLM", make_llama},
    Family{"qwen2", "Qwen2ForCausalLM", make_llama},
    Family{"qwen3", "Qwen3ForCausalLM", make_llama},
    Family{"t5", "T5ForConditionalGeneration", make_t5},
    Family{"mt5", "MT5ForConditionalGeneration", make_t5},
};

}  // namespace

std::optional<DecoderTokens> read_decoder_tokens(const std::string& config_json) {
  const JsonObject j = JsonObject::read(config_json);
  const std::string type = j.text("model_type");
  if (type != "t5" && type != "mt5") return std::nullopt;
  return decoder_tokens(j);
}

MadeModel make_model(const std::string& path, DType dtype) {
  const JsonObject j = JsonObject::read(path);
  const std::string type = j.text("model_type");
  const auto family =
      std::find_if(kFamilies.begin(), kFamilies.end(), [&](const Family& f) { return type == f.model_type; });
  if (family == kFamilies.end()) {
    std::string known;
    for (const Family& f : kFamilies) known += (known.empty() ? "" : ", ") + std::string(f.model_type);
    j.refuse("model_type", "one of " + known);
  }
  MadeModel made = family->make(path, dtype);
  made.info.model_type = type;
  made.info.architecture = family->architecture;
  return made;
}

}  // namespace ft
