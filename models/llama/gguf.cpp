// GGUF's architectures llama (LLaMA, Mistral), qwen2 and qwen3.
#include <nlohmann/json.hpp>

#include "models/decoder/gguf.h"
#include "models/llama/config.h"
#include "models/llama/family.h"

namespace ft::llama {

GgufModel make_gguf(const std::string& config_json) {
  const Config c = read_config(config_json);
  const bool llama = c.model_type == "llama" || c.model_type == "mistral";
  GgufModel g{.architecture = llama ? "llama" : c.model_type,
              .vocab_size = c.vocab_size,
              .names = decoder::kGgufNames,
              .rope_factors = decoder::gguf_rope_factors(c.rope),
              .ignored_window = decoder::gguf_ignored_window(c)};
  g.keys = decoder::gguf_keys(c, g.architecture, config_json);
  if (llama) g.permuted = decoder::gguf_permuted(c);
  return g;
}

Json config_of_gguf(const GgufKeyReader& keys) {
  const std::string& type = keys.architecture();
  Json config = decoder::gguf_config(keys, type);
  decoder::add_gguf_biases(keys, config);
  if (type == "qwen2") config.erase("attention_bias");  // q, k and v always have biases
  if (type != "llama") config.erase("mlp_bias");
  return config;
}

}  // namespace ft::llama
