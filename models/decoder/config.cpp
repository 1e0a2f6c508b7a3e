#include "models/decoder/config.h"

#include <algorithm>

namespace ft::decoder {

std::int64_t when_absent(const JsonObject& j, std::string_view key, std::int64_t value,
                         std::int64_t when_null) {
  const std::vector<std::string> keys = j.keys();
  const bool there = std::find(keys.begin(), keys.end(), key) != keys.end();
  return there || value == 0 ? when_null : value;
}

Activation read_activation(const JsonObject& j, std::string_view key, const std::string& usual) {
  const std::string name = j.text_or(key, usual);
  if (name == "silu" || name == "swish") return Activation::silu;
  if (name == "gelu") return Activation::gelu;
  if (name == "gelu_new" || name == "gelu_fast" || name == "gelu_pytorch_tanh") return Activation::gelu_tanh;
  if (name == "relu") return Activation::relu;
  j.refuse(key, "one of silu, swish, gelu, gelu_new, gelu_fast, gelu_pytorch_tanh, relu");
}

float read_dropout(const JsonObject& j, std::string_view key, double usual) {
  const double p = j.number_or(key, usual);
  if (p < 0 || p >= 1) j.refuse(key, "at least 0 and below 1");
  return static_cast<float>(p);
}

void read_layer_types(Config& c, const JsonObject& j, std::int64_t window) {
  if (!j.has("layer_types")) return;
  const std::vector<std::string> types = j.texts("layer_types");
  if (types.size() != c.windows.size()) j.refuse("layer_types", "a list with one entry for each layer");
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (types[i] == "sliding_attention")
      c.windows[i] = window;
    else if (types[i] == "full_attention")
      c.windows[i] = 0;
    else
      j.refuse("layer_types", "a list of full_attention and sliding_attention");
  }
}

void read_heads(Config& c, const JsonObject& j, const Usual& usual) {
  c.num_attention_heads = j.integer("num_attention_heads", 1, kMaxSize);
  c.num_key_value_heads = j.integer_or(
      "num_key_value_heads",
      when_absent(j, "num_key_value_heads", usual.key_value_heads, c.num_attention_heads), 1, kMaxSize);
  if (c.num_attention_heads % c.num_key_value_heads != 0)
    j.refuse("num_key_value_heads", str("a divisor of num_attention_heads (", c.num_attention_heads, ")"));
  const bool divides = c.hidden_size % c.num_attention_heads == 0;
  if (!divides && (c.model_type == "llama" || (!j.has("head_dim") && usual.head_dim == 0)))
    j.refuse("num_attention_heads", str("a divisor of hidden_size (", c.hidden_size, ")"));
  const std::int64_t share = c.hidden_size / c.num_attention_heads;
  c.head_dim = j.integer_or("head_dim", when_absent(j, "head_dim", usual.head_dim, share), 2, 4096);
  if (c.head_dim % 2 != 0) j.refuse("head_dim", "even");
}

void read_padding(Config& c, const JsonObject& j, std::int64_t usual) {
  if (!j.has("pad_token_id")) {
    const std::int64_t id = when_absent(j, "pad_token_id", usual + 1, 0) - 1;
    c.padding = id < c.vocab_size ? id : -1;
    return;
  }
  const std::int64_t id = j.integer("pad_token_id", -c.vocab_size, c.vocab_size - 1);
  c.padding = id < 0 ? id + c.vocab_size : id;
}

Config read_config(const JsonObject& j, const Usual& usual) {
  Config c;
  c.model_type = j.text("model_type");
  c.vocab_size = j.integer("vocab_size", 1, kMaxSize);
  c.hidden_size = j.integer("hidden_size", 1, kMaxSize);
  c.intermediate_size = usual.intermediate_size > 0
                            ? j.integer_or("intermediate_size", usual.intermediate_size, 1, kMaxSize)
                            : j.integer("intermediate_size", 1, kMaxSize);
  c.num_hidden_layers = j.integer("num_hidden_layers", 1, kMaxLayers);
  c.max_position_embeddings = j.positive_or("max_position_embeddings", usual.max_position);
  c.rms_norm_eps = static_cast<float>(j.positive_number_or("rms_norm_eps", usual.eps));
  c.initializer_range = static_cast<float>(j.positive_number_or("initializer_range", 0.02));
  c.tie_word_embeddings = j.boolean_or("tie_word_embeddings", usual.tied);
  c.hidden_act = read_activation(j, usual.activation_key, usual.activation);
  c.attention_dropout = read_dropout(j, "attention_dropout", 0);
  read_padding(c, j, usual.padding);
  read_heads(c, j, usual);
  c.rope = read_rope(j, c.head_dim, c.max_position_embeddings, usual.rope);
  c.windows.assign(static_cast<std::size_t>(c.num_hidden_layers), 0);
  return c;
}

}  // namespace ft::decoder
