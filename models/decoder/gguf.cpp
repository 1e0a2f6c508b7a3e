#include "models/decoder/gguf.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/core/error.h"

namespace ft::decoder {
namespace {

std::uint32_t whole(std::int64_t n) { return static_cast<std::uint32_t>(n); }

// Adds YaRN's keys. Readers assume YaRN's default betas and its default factor on cos and sin, which they
// multiply by attn_factor.
void add_yarn(GgufKeys& keys, const Rope& r, const std::string& arch, const std::string& file) {
  // Readers of gpt-oss round the ramp's bounds, too; the family says so.
  if (r.beta_fast != 32 || r.beta_slow != 1 || (!r.truncate && arch != "gpt-oss"))
    throw UserError(Exit::input,
                    str(file, ": in GGUF yarn's beta_fast is 32, beta_slow 1 and truncate true"));
  keys.emplace_back(arch + ".rope.scaling.original_context_length",
                    whole(static_cast<std::int64_t>(r.original_max_position)));
  const double usual = r.factor <= 1 ? 1 : 1 + 0.1 * std::log(r.factor);
  if (r.attention_factor != usual)
    keys.emplace_back(arch + ".rope.scaling.attn_factor", static_cast<float>(r.attention_factor / usual));
}

void add_positions(GgufKeys& keys, const Rope& r, const std::string& arch, const std::string& file) {
  using Type = Rope::Type;
  keys.emplace_back(arch + ".rope.freq_base", static_cast<float>(r.theta));
  keys.emplace_back(arch + ".rope.dimension_count", whole(r.head_dim));
  if (r.type == Type::normal || r.type == Type::llama3) return;
  if (r.type == Type::dynamic)
    throw UserError(Exit::input, file + ": GGUF has no dynamic positions (rope type dynamic)");
  if (r.type == Type::longrope && arch != "phi3")
    throw UserError(Exit::input, str(file, ": GGUF's ", arch, " models have no longrope"));
  if (r.type == Type::longrope) {
    keys.emplace_back(arch + ".rope.scaling.attn_factor", static_cast<float>(r.attention_factor));
    return;
  }
  keys.emplace_back(arch + ".rope.scaling.type", std::string(r.type == Type::linear ? "linear" : "yarn"));
  keys.emplace_back(arch + ".rope.scaling.factor", static_cast<float>(r.factor));
  if (r.type == Type::yarn) add_yarn(keys, r, arch, file);
}

}  // namespace

GgufKeys gguf_sizes(const Config& c, const std::string& arch) {
  return {{arch + ".context_length", whole(c.max_position_embeddings)},
          {arch + ".embedding_length", whole(c.hidden_size)},
          {arch + ".block_count", whole(c.num_hidden_layers)},
          {arch + ".feed_forward_length", whole(c.intermediate_size)},
          {arch + ".attention.head_count", whole(c.num_attention_heads)},
          {arch + ".attention.layer_norm_epsilon", c.rms_norm_eps},
          {arch + ".vocab_size", whole(c.vocab_size)}};
}

GgufKeys gguf_keys(const Config& c, const std::string& arch, const std::string& config_json,
                   Activation activation) {
  if (c.hidden_act != activation)
    throw UserError(Exit::input, str(config_json, ": GGUF's ", arch, " models have ",
                                     activation == Activation::silu ? "hidden_act silu"
                                                                    : "hidden_activation gelu_pytorch_tanh",
                                     " only"));
  if ((c.o_bias || c.mlp_bias) && arch != "llama" && arch != "granite" && arch != "gpt-oss")
    throw UserError(Exit::input,
                    str(config_json, ": GGUF's ", arch,
                        " models have no biases of o_proj and the MLP (attention_bias, mlp_bias)"));
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

void set_gguf_key(GgufKeys& keys, const std::string& key, GgufValue value) {
  const auto at = std::ranges::find(keys, key, [](const auto& k) { return k.first; });
  if (at != keys.end())
    at->second = std::move(value);
  else
    keys.emplace_back(key, std::move(value));
}

std::int64_t gguf_ignored_window(const Config& c) {
  std::int64_t least = 0;
  for (const std::int64_t w : c.windows)
    if (w > 0 && w < c.max_position_embeddings && (least == 0 || w < least)) least = w;
  return least;
}

// Returns the factors of `llama3` and `longrope` positions; the other kinds are described by keys.
std::vector<GgufModel::Factors> gguf_rope_factors(const Rope& r) {
  if (r.type == Rope::Type::longrope)
    return {{"rope_factors_long.weight", {r.long_factors.begin(), r.long_factors.end()}},
            {"rope_factors_short.weight", {r.short_factors.begin(), r.short_factors.end()}}};
  if (r.type != Rope::Type::llama3) return {};
  std::vector<float> factors;
  Rope plain = r;
  plain.type = Rope::Type::normal;
  const auto stretched = inverse_frequencies(r, 0), usual = inverse_frequencies(plain, 0);
  for (std::size_t i = 0; i < usual.size(); ++i) factors.push_back(usual[i] / stretched[i]);
  return {{"rope_freqs.weight", std::move(factors)}};
}

std::vector<GgufModel::Permuted> gguf_permuted(const Config& c) {
  return {{"self_attn.q_proj", c.num_attention_heads}, {"self_attn.k_proj", c.num_key_value_heads}};
}

}  // namespace ft::decoder
