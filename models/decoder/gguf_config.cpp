// Makes config.json from a GGUF file, for decoders with LLaMA's parts.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "models/decoder/gguf.h"

namespace ft::decoder {
namespace {

// Recovers the settings of llama3 positions, because GGUF holds only the divisors computed from them.
Json llama3_positions(const GgufKeyReader& keys, const GgufTensor& stored, Rope rope) {
  const std::vector<float> factors = keys.read(stored);
  rope.type = Rope::Type::normal;
  const auto usual = inverse_frequencies(rope, 0);
  rope.type = Rope::Type::llama3;
  rope.factor = factors.empty() ? 1 : *std::ranges::max_element(factors);
  rope.low_freq_factor = 1;
  rope.high_freq_factor = 4;
  for (double length = 16; length <= 1 << 20; length *= 2) {  // LLaMA 3.1 to 3.3 have 8192
    rope.original_max_position = length;
    const auto stretched = inverse_frequencies(rope, 0);
    bool same = factors.size() == usual.size() && rope.factor > 1;
    for (std::size_t i = 0; same && i < usual.size(); ++i)
      same = std::abs(usual[i] / stretched[i] - factors[i]) <= 1e-3f * factors[i];
    if (same)
      return {{"rope_type", "llama3"},
              {"factor", rope.factor},
              {"low_freq_factor", 1.0},
              {"high_freq_factor", 4.0},
              {"original_max_position_embeddings", static_cast<std::int64_t>(length)}};
  }
  keys.refuse("rope_freqs.weight are not the factors of LLaMA 3's positions, which ft could read");
}

// Reads Phi-3's positions: tensors hold the divisors for short and for long texts.
Json long_positions(const GgufKeyReader& keys, std::int64_t rotated) {
  Json scaling = {{"rope_type", "longrope"}};
  for (const auto& [key, name] : {std::pair{"short_factor", "rope_factors_short.weight"},
                                  std::pair{"long_factor", "rope_factors_long.weight"}}) {
    const GgufTensor* stored = keys.find_tensor(name);
    if (!stored || stored->elements() != rotated / 2)
      keys.refuse(str(name, " is missing, or not a number for each of ", rotated / 2, " rotated pairs"));
    scaling[key] = keys.read(*stored);
  }
  if (keys.has("rope.scaling.attn_factor"))
    scaling["attention_factor"] = keys.real("rope.scaling.attn_factor");
  return scaling;
}

Json stretched_positions(const GgufKeyReader& keys, const std::string& type) {
  if (type != "linear" && type != "yarn") keys.refuse("positions of type " + printable(type));
  Json scaling = {{"rope_type", type}, {"factor", keys.real_or("rope.scaling.factor", 1)}};
  if (type == "linear") return scaling;
  scaling["original_max_position_embeddings"] = keys.whole("rope.scaling.original_context_length");
  const double factor = scaling["factor"];
  if (keys.has("rope.scaling.attn_factor"))  // relative to YaRN's default factor
    scaling["attention_factor"] =
        keys.real("rope.scaling.attn_factor") * (factor <= 1 ? 1 : 1 + 0.1 * std::log(factor));
  return scaling;
}

void add_positions(const GgufKeyReader& keys, Json& config, std::int64_t rotated) {
  const double theta = keys.real_or("rope.freq_base", 10000);
  config["rope_theta"] = theta;
  Rope rope;
  rope.theta = theta;
  rope.head_dim = rotated;
  if (const GgufTensor* factors = keys.find_tensor("rope_freqs.weight")) {
    config["rope_scaling"] = llama3_positions(keys, *factors, rope);
  } else if (keys.has_tensor("rope_factors_long.weight")) {
    config["rope_scaling"] = long_positions(keys, rotated);
  } else if (keys.has("rope.scaling.type")) {
    const std::string type = keys.text("rope.scaling.type");
    if (type != "none") config["rope_scaling"] = stretched_positions(keys, type);
  }
}

}  // namespace

Json gguf_config(const GgufKeyReader& keys, const std::string& model_type, bool parts) {
  const std::int64_t heads = keys.whole("attention.head_count"), hidden = keys.whole("embedding_length");
  const std::int64_t head_dim = keys.whole_or(
      "attention.key_length", parts ? hidden / heads : keys.whole_or("rope.dimension_count", hidden / heads));
  const std::int64_t rotated = keys.whole_or("rope.dimension_count", head_dim);
  if (rotated > head_dim || (rotated != head_dim && !parts))
    keys.refuse(str("only a part of each head has positions, which GGUF's ", keys.architecture(),
                    " models do not have in ft"));
  if (keys.whole_or("attention.value_length", head_dim) != head_dim)
    keys.refuse("keys and values of different lengths");
  return gguf_config_of_heads(keys, model_type, head_dim, rotated);
}

Json gguf_config_of_heads(const GgufKeyReader& keys, const std::string& model_type, std::int64_t head_dim,
                          std::int64_t rotated) {
  const std::int64_t heads = keys.whole("attention.head_count"), hidden = keys.whole("embedding_length");
  Json config = {{"model_type", model_type},
                 {"vocab_size", keys.vocab_size()},
                 {"hidden_size", hidden},
                 {"intermediate_size", keys.whole("feed_forward_length")},
                 {"num_hidden_layers", keys.whole("block_count")},
                 {"num_attention_heads", heads},
                 {"num_key_value_heads", keys.whole_or("attention.head_count_kv", heads)},
                 {"head_dim", head_dim},
                 {"hidden_act", "silu"},
                 {"max_position_embeddings", keys.whole("context_length")},
                 {"rms_norm_eps", keys.real_or("attention.layer_norm_rms_epsilon", 1e-6)},
                 {"tie_word_embeddings", !keys.has_tensor("output.weight")},
                 {"pad_token_id", nullptr}};
  if (rotated != head_dim)
    config["partial_rotary_factor"] = static_cast<double>(rotated) / static_cast<double>(head_dim);
  add_positions(keys, config, rotated);
  return config;
}

void add_gguf_biases(const GgufKeyReader& keys, Json& config) {
  config["attention_bias"] = keys.has_tensor("blk.0.attn_q.bias");
  config["mlp_bias"] = keys.has_tensor("blk.0.ffn_up.bias");
}

}  // namespace ft::decoder
