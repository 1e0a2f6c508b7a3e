// Names, order of rows and keys of a model in GGUF.
#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "app/gguf_export.h"
#include "engine/core/error.h"
#include "engine/io/json.h"
#include "models/llama/positions.h"

namespace ft {
namespace {

struct Name {
  std::string_view hugging_face, gguf;
};
constexpr std::array kModules = {Name{"model.embed_tokens", "token_embd"}, Name{"model.norm", "output_norm"},
                                 Name{"lm_head", "output"}};
constexpr std::array kOfLayers = {
    Name{"input_layernorm", "attn_norm"},    Name{"self_attn.q_proj", "attn_q"},
    Name{"self_attn.k_proj", "attn_k"},      Name{"self_attn.v_proj", "attn_v"},
    Name{"self_attn.o_proj", "attn_output"}, Name{"self_attn.q_norm", "attn_q_norm"},
    Name{"self_attn.k_norm", "attn_k_norm"}, Name{"post_attention_layernorm", "ffn_norm"},
    Name{"mlp.gate_proj", "ffn_gate"},       Name{"mlp.up_proj", "ffn_up"},
    Name{"mlp.down_proj", "ffn_down"}};

std::optional<std::string> find(std::span<const Name> names, std::string_view module) {
  for (const Name& n : names)
    if (n.hugging_face == module) return std::string(n.gguf);
  return std::nullopt;
}

std::uint32_t whole(std::int64_t n) { return static_cast<std::uint32_t>(n); }

void add_positions(GgufKeys& keys, const llama::Config& c, const std::string& arch, const std::string& file) {
  using Type = llama::Rope::Type;
  const llama::Rope& r = c.rope;
  keys.emplace_back(arch + ".rope.freq_base", static_cast<float>(r.theta));
  keys.emplace_back(arch + ".rope.dimension_count", whole(c.head_dim));
  if (r.type == Type::normal || r.type == Type::llama3) return;
  if (r.type == Type::dynamic)
    throw UserError(Exit::input, file + ": GGUF has no dynamic positions (rope type dynamic)");
  keys.emplace_back(arch + ".rope.scaling.type", std::string(r.type == Type::linear ? "linear" : "yarn"));
  keys.emplace_back(arch + ".rope.scaling.factor", static_cast<float>(r.factor));
  if (r.type == Type::yarn)
    keys.emplace_back(arch + ".rope.scaling.original_context_length",
                      whole(static_cast<std::int64_t>(r.original_max_position)));
}

}  // namespace

std::string gguf_architecture(const llama::Config& c) {
  return c.model_type == "mistral" ? "llama" : c.model_type;
}

std::optional<std::string> gguf_name(const std::string& name) {
  const std::size_t dot = name.rfind('.');
  if (dot == std::string::npos) return std::nullopt;
  const std::string module = name.substr(0, dot), kind = name.substr(dot);
  if (kind != ".weight" && kind != ".bias") return std::nullopt;
  if (const auto found = find(kModules, module)) return *found + kind;
  constexpr std::string_view kLayers = "model.layers.";
  if (!module.starts_with(kLayers)) return std::nullopt;
  const std::size_t end = module.find('.', kLayers.size());
  if (end == std::string::npos) return std::nullopt;
  const std::string layer = module.substr(kLayers.size(), end - kLayers.size());
  const auto found = find(kOfLayers, std::string_view(module).substr(end + 1));
  if (!found) return std::nullopt;
  return "blk." + layer + "." + *found + kind;
}

std::int64_t gguf_permuted_heads(const std::string& name, const llama::Config& c) {
  if (gguf_architecture(c) != "llama") return 0;
  if (name.find(".self_attn.q_proj.") != std::string::npos) return c.num_attention_heads;
  if (name.find(".self_attn.k_proj.") != std::string::npos) return c.num_key_value_heads;
  return 0;
}

void gguf_permute(float* values, std::int64_t rows, std::int64_t columns, std::int64_t heads) {
  const std::int64_t width = rows / heads, half = width / 2;
  require(rows == heads * half * 2, "rows that are not heads of even width");
  std::vector<float> head(static_cast<std::size_t>(width * columns));
  for (std::int64_t h = 0; h < heads; ++h) {
    float* at = values + h * width * columns;
    for (std::int64_t r = 0; r < width; ++r)
      std::copy_n(at + r * columns, columns, head.data() + (r % half * 2 + r / half) * columns);
    std::copy(head.begin(), head.end(), at);
  }
}

GgufKeys gguf_model_keys(const llama::Config& c, const std::string& config_json) {
  const std::string arch = gguf_architecture(c);
  if (c.hidden_act != Activation::silu)
    throw UserError(Exit::input, config_json + ": GGUF's " + arch + " models have hidden_act silu only");
  GgufKeys keys;
  keys.emplace_back(arch + ".context_length", whole(c.max_position_embeddings));
  keys.emplace_back(arch + ".embedding_length", whole(c.hidden_size));
  keys.emplace_back(arch + ".block_count", whole(c.num_hidden_layers));
  keys.emplace_back(arch + ".feed_forward_length", whole(c.intermediate_size));
  keys.emplace_back(arch + ".attention.head_count", whole(c.num_attention_heads));
  keys.emplace_back(arch + ".attention.head_count_kv", whole(c.num_key_value_heads));
  keys.emplace_back(arch + ".attention.layer_norm_rms_epsilon", c.rms_norm_eps);
  keys.emplace_back(arch + ".attention.key_length", whole(c.head_dim));
  keys.emplace_back(arch + ".attention.value_length", whole(c.head_dim));
  keys.emplace_back(arch + ".vocab_size", whole(c.vocab_size));
  add_positions(keys, c, arch, config_json);
  return keys;
}

std::vector<float> gguf_rope_factors(const llama::Config& c) {
  std::vector<float> factors;
  if (c.rope.type != llama::Rope::Type::llama3) return factors;
  llama::Config plain = c;
  plain.rope.type = llama::Rope::Type::normal;
  const auto stretched = llama::inverse_frequencies(c, 0), usual = llama::inverse_frequencies(plain, 0);
  for (std::size_t i = 0; i < usual.size(); ++i) factors.push_back(usual[i] / stretched[i]);
  return factors;
}

}  // namespace ft
