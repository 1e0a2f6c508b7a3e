// Names, order of rows and keys of a model in GGUF.
#include <algorithm>
#include <array>
#include <span>
#include <string_view>
#include <vector>

#include "app/gguf/export.h"
#include "engine/core/error.h"
#include "engine/io/json.h"
#include "models/llama/positions.h"

namespace ft {
namespace {

struct Name {
  std::string_view hugging_face, gguf;
};
constexpr std::array kModules = {Name{"model.embed_tokens", "token_embd"},
                                 Name{"model.norm", "output_norm"},
                                 Name{"lm_head", "output"},
                                 Name{"shared", "token_embd"},
                                 Name{"encoder.embed_tokens", "token_embd"},
                                 Name{"decoder.embed_tokens", "token_embd"},
                                 Name{"encoder.final_layer_norm", "enc.output_norm"},
                                 Name{"decoder.final_layer_norm", "dec.output_norm"}};
constexpr std::array kOfLayers = {
    Name{"input_layernorm", "attn_norm"},    Name{"self_attn.q_proj", "attn_q"},
    Name{"self_attn.k_proj", "attn_k"},      Name{"self_attn.v_proj", "attn_v"},
    Name{"self_attn.o_proj", "attn_output"}, Name{"self_attn.q_norm", "attn_q_norm"},
    Name{"self_attn.k_norm", "attn_k_norm"}, Name{"post_attention_layernorm", "ffn_norm"},
    Name{"mlp.gate_proj", "ffn_gate"},       Name{"mlp.up_proj", "ffn_up"},
    Name{"mlp.down_proj", "ffn_down"}};
// Names in T5's blocks.
constexpr std::array kOfEncoder = {
    Name{"layer.0.layer_norm", "attn_norm"},       Name{"layer.1.layer_norm", "ffn_norm"},
    Name{"layer.1.DenseReluDense.wi", "ffn_up"},   Name{"layer.1.DenseReluDense.wi_0", "ffn_gate"},
    Name{"layer.1.DenseReluDense.wi_1", "ffn_up"}, Name{"layer.1.DenseReluDense.wo", "ffn_down"}};
constexpr std::array kOfDecoder = {
    Name{"layer.0.layer_norm", "attn_norm"}, Name{"layer.1.layer_norm", "cross_attn_norm"},
    Name{"layer.1.EncDecAttention.q", "cross_attn_q"}, Name{"layer.1.EncDecAttention.k", "cross_attn_k"},
    Name{"layer.1.EncDecAttention.v", "cross_attn_v"}, Name{"layer.1.EncDecAttention.o", "cross_attn_o"},
    // of no use, but in T5's first checkpoints
    Name{"layer.1.EncDecAttention.relative_attention_bias", "cross_attn_rel_b"},
    Name{"layer.2.layer_norm", "ffn_norm"}, Name{"layer.2.DenseReluDense.wi", "ffn_up"},
    Name{"layer.2.DenseReluDense.wi_0", "ffn_gate"}, Name{"layer.2.DenseReluDense.wi_1", "ffn_up"},
    Name{"layer.2.DenseReluDense.wo", "ffn_down"}};
constexpr std::array kOfSelfAttention = {
    Name{"layer.0.SelfAttention.q", "attn_q"}, Name{"layer.0.SelfAttention.k", "attn_k"},
    Name{"layer.0.SelfAttention.v", "attn_v"}, Name{"layer.0.SelfAttention.o", "attn_o"},
    Name{"layer.0.SelfAttention.relative_attention_bias", "attn_rel_b"}};

// Where blocks begin, what they are called in GGUF, and their modules.
struct Blocks {
  std::string_view hugging_face, gguf;
  std::span<const Name> modules, more = {};
};
constexpr std::array kBlocks = {Blocks{"model.layers.", "blk.", kOfLayers},
                                Blocks{"encoder.block.", "enc.blk.", kOfEncoder, kOfSelfAttention},
                                Blocks{"decoder.block.", "dec.blk.", kOfDecoder, kOfSelfAttention}};

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
  for (const Blocks& blocks : kBlocks) {
    if (!module.starts_with(blocks.hugging_face)) continue;
    const std::size_t begin = blocks.hugging_face.size(), end = module.find('.', begin);
    if (end == std::string::npos) break;
    const std::string_view inner = std::string_view(module).substr(end + 1);
    auto found = find(blocks.modules, inner);
    if (!found) found = find(blocks.more, inner);
    if (!found) break;
    return str(blocks.gguf, module.substr(begin, end - begin), ".", *found, kind);
  }
  return std::nullopt;
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
