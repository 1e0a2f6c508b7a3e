// GGUF's architectures llama (LLaMA, Mistral), qwen2 and qwen3.
#include <array>

#include "engine/core/error.h"
#include "models/llama/config.h"
#include "models/llama/family.h"

namespace ft::llama {
namespace {

constexpr std::array kModules = {GgufName{"model.embed_tokens", "token_embd"},
                                 GgufName{"model.norm", "output_norm"}, GgufName{"lm_head", "output"}};
constexpr std::array kOfLayers = {
    GgufName{"input_layernorm", "attn_norm"},    GgufName{"self_attn.q_proj", "attn_q"},
    GgufName{"self_attn.k_proj", "attn_k"},      GgufName{"self_attn.v_proj", "attn_v"},
    GgufName{"self_attn.o_proj", "attn_output"}, GgufName{"self_attn.q_norm", "attn_q_norm"},
    GgufName{"self_attn.k_norm", "attn_k_norm"}, GgufName{"post_attention_layernorm", "ffn_norm"},
    GgufName{"mlp.gate_proj", "ffn_gate"},       GgufName{"mlp.up_proj", "ffn_up"},
    GgufName{"mlp.down_proj", "ffn_down"}};
constexpr std::array kBlocks = {GgufBlocks{"model.layers.", "blk.", kOfLayers}};

std::uint32_t whole(std::int64_t n) { return static_cast<std::uint32_t>(n); }

void add_positions(GgufKeys& keys, const Rope& r, const std::string& arch, const std::string& file) {
  using Type = Rope::Type;
  keys.emplace_back(arch + ".rope.freq_base", static_cast<float>(r.theta));
  keys.emplace_back(arch + ".rope.dimension_count", whole(r.head_dim));
  if (r.type == Type::normal || r.type == Type::llama3) return;
  if (r.type == Type::dynamic)
    throw UserError(Exit::input, file + ": GGUF has no dynamic positions (rope type dynamic)");
  keys.emplace_back(arch + ".rope.scaling.type", std::string(r.type == Type::linear ? "linear" : "yarn"));
  keys.emplace_back(arch + ".rope.scaling.factor", static_cast<float>(r.factor));
  if (r.type == Type::yarn)
    keys.emplace_back(arch + ".rope.scaling.original_context_length",
                      whole(static_cast<std::int64_t>(r.original_max_position)));
}

// Factors of `llama3` positions; readers know the other kinds by their keys.
std::vector<float> rope_factors(const Rope& r) {
  std::vector<float> factors;
  if (r.type != Rope::Type::llama3) return factors;
  Rope plain = r;
  plain.type = Rope::Type::normal;
  const auto stretched = inverse_frequencies(r, 0), usual = inverse_frequencies(plain, 0);
  for (std::size_t i = 0; i < usual.size(); ++i) factors.push_back(usual[i] / stretched[i]);
  return factors;
}

GgufKeys model_keys(const Config& c, const std::string& arch, const std::string& config_json) {
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
  add_positions(keys, c.rope, arch, config_json);
  return keys;
}

}  // namespace

GgufModel make_gguf(const std::string& config_json) {
  const Config c = read_config(config_json);
  const bool llama = c.model_type == "llama" || c.model_type == "mistral";
  GgufModel g{.architecture = llama ? "llama" : c.model_type,
              .vocab_size = c.vocab_size,
              .names = {kModules, kBlocks},
              .rope_factors = rope_factors(c.rope)};
  g.keys = model_keys(c, g.architecture, config_json);
  if (llama)
    g.permuted = {{"self_attn.q_proj", c.num_attention_heads}, {"self_attn.k_proj", c.num_key_value_heads}};
  return g;
}

}  // namespace ft::llama
