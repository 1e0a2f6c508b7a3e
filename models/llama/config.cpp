#include "models/llama/config.h"

#include <algorithm>
#include <array>

#include "engine/io/json.h"

namespace ft::llama {
namespace {

// Larger sizes than any model's; beneath them no product of two overflows.
constexpr std::int64_t kMaxSize = std::int64_t{1} << 24, kMaxLayers = 4096;

// What transformers' config classes assume of a key that is not in the file at all; null there means
// something else.
struct Absent {
  const char* model_type;
  std::int64_t key_value_heads, head_dim, window, max_position;  // 0: derived, or none
};
constexpr std::array kAbsent = {
    Absent{"llama", 0, 0, 0, 2048},
    Absent{"mistral", 8, 0, 4096, 131072},
    Absent{"qwen2", 32, 0, 4096, 32768},
    Absent{"qwen3", 32, 128, 4096, 32768},
};
const Absent& absent_of(const std::string& model_type) {
  const auto at = std::find_if(kAbsent.begin(), kAbsent.end(),
                               [&](const Absent& a) { return model_type == a.model_type; });
  return at == kAbsent.end() ? kAbsent[0] : *at;
}

std::int64_t when_absent(const JsonObject& j, std::string_view key, std::int64_t value,
                         std::int64_t when_null) {
  const std::vector<std::string> keys = j.keys();
  const bool there = std::find(keys.begin(), keys.end(), key) != keys.end();
  return there || value == 0 ? when_null : value;
}

Activation read_activation(const JsonObject& j) {
  const std::string name = j.text_or("hidden_act", "silu");
  if (name == "silu" || name == "swish") return Activation::silu;
  if (name == "gelu") return Activation::gelu;
  if (name == "gelu_new" || name == "gelu_pytorch_tanh") return Activation::gelu_tanh;
  if (name == "relu") return Activation::relu;
  j.refuse("hidden_act", "one of silu, swish, gelu, gelu_new, gelu_pytorch_tanh, relu");
}

// Mistral slides in all layers; Qwen where layer_types says so, or from max_window_layers on.
void read_windows(Config& c, const JsonObject& j) {
  c.windows.assign(static_cast<std::size_t>(c.num_hidden_layers), 0);
  if (c.model_type == "llama") return;
  const bool qwen = c.model_type != "mistral";
  if (qwen && !j.boolean_or("use_sliding_window", false)) return;
  const std::int64_t usual = when_absent(j, "sliding_window", absent_of(c.model_type).window, 0);
  if (!j.has("sliding_window") && usual == 0) return;
  const std::int64_t window = j.positive_or("sliding_window", usual);
  const std::int64_t from = qwen ? j.integer_or("max_window_layers", 28, 0) : 0;
  for (std::int64_t i = from; i < c.num_hidden_layers; ++i) c.windows[static_cast<std::size_t>(i)] = window;
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

void read_heads(Config& c, const JsonObject& j) {
  c.num_attention_heads = j.integer("num_attention_heads", 1, kMaxSize);
  const Absent& usual = absent_of(c.model_type);
  c.num_key_value_heads = j.integer_or(
      "num_key_value_heads",
      when_absent(j, "num_key_value_heads", usual.key_value_heads, c.num_attention_heads), 1, kMaxSize);
  if (c.num_attention_heads % c.num_key_value_heads != 0)
    j.refuse("num_key_value_heads", str("a divisor of num_attention_heads (", c.num_attention_heads, ")"));
  const bool divides = c.hidden_size % c.num_attention_heads == 0;
  if (!divides && (c.model_type == "llama" || !j.has("head_dim")))
    j.refuse("num_attention_heads", str("a divisor of hidden_size (", c.hidden_size, ")"));
  const std::int64_t share = c.hidden_size / c.num_attention_heads;
  c.head_dim = j.integer_or("head_dim", when_absent(j, "head_dim", usual.head_dim, share), 2, 4096);
  if (c.head_dim % 2 != 0) j.refuse("head_dim", "even");
}

void read_biases(Config& c, const JsonObject& j) {
  if (c.model_type == "qwen2") {
    c.qkv_bias = true;
  } else if (c.model_type != "mistral") {
    c.qkv_bias = c.o_bias = j.boolean_or("attention_bias", false);
    c.mlp_bias = c.model_type == "llama" && j.boolean_or("mlp_bias", false);
  }
  c.qk_norm = c.model_type == "qwen3";
}

}  // namespace

Config read_config(const std::filesystem::path& path) {
  const JsonObject j = JsonObject::read(path.string());
  Config c;
  c.model_type = j.text("model_type");
  c.vocab_size = j.integer("vocab_size", 1, kMaxSize);
  c.hidden_size = j.integer("hidden_size", 1, kMaxSize);
  c.intermediate_size = j.integer("intermediate_size", 1, kMaxSize);
  c.num_hidden_layers = j.integer("num_hidden_layers", 1, kMaxLayers);
  c.max_position_embeddings = j.positive_or("max_position_embeddings", absent_of(c.model_type).max_position);
  c.rms_norm_eps = static_cast<float>(j.positive_number_or("rms_norm_eps", 1e-6));
  c.initializer_range = static_cast<float>(j.positive_number_or("initializer_range", 0.02));
  c.tie_word_embeddings = j.boolean_or("tie_word_embeddings", false);
  c.hidden_act = read_activation(j);
  if (j.number_or("attention_dropout", 0) != 0) j.refuse("attention_dropout", "0: ft has no dropout there");
  read_heads(c, j);
  c.rope = read_rope(j, c.head_dim, c.max_position_embeddings);
  read_windows(c, j);
  read_biases(c, j);
  return c;
}

}  // namespace ft::llama
