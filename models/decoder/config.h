// Reads the config.json that most decoders share, with transformers' names and defaults.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "engine/ops/math.h"
#include "models/rope.h"

namespace ft::decoder {

struct Config {
  std::string model_type;
  std::int64_t vocab_size = 0, hidden_size = 0, intermediate_size = 0, num_hidden_layers = 0;
  std::int64_t num_attention_heads = 0, num_key_value_heads = 0, head_dim = 0, max_position_embeddings = 0;
  float rms_norm_eps = 1e-6f;  // epsilon of RMSNorm or LayerNorm
  float norm_offset = 0;       // see RmsNorm
  float initializer_range = 0.02f;
  std::int64_t padding = -1;  // the token whose embedding is not trained by lookups; -1: none
  Activation hidden_act = Activation::silu;
  float attention_dropout = 0;
  bool tie_word_embeddings = false;
  bool qkv_bias = false, o_bias = false, mlp_bias = false;
  bool qk_norm = false;               // a norm over each head's values
  std::vector<std::int64_t> windows;  // of each layer; 0: full attention
  Rope rope;

  std::int64_t query_width() const { return num_attention_heads * head_dim; }
  std::int64_t key_width() const { return num_key_value_heads * head_dim; }
};

// Defaults of a family's config class in transformers, for keys that are missing. 0: the key is required, or
// derived.
struct Usual {
  std::int64_t key_value_heads = 0, head_dim = 0, max_position = 2048;
  std::int64_t padding = -1;  // pad_token_id; -1: null
  std::int64_t intermediate_size = 0;
  double eps = 1e-6;
  bool tied = false;
  const char* activation_key = "hidden_act";
  const char* activation = "silu";
  RopeUsual rope = {};
};

// Limits above the sizes of any model; below them no product of two sizes overflows.
inline constexpr std::int64_t kMaxSize = std::int64_t{1} << 24, kMaxLayers = 4096;

// Reads all settings but biases and windows, which stay 0. Accepts both generations of config.json (v4:
// rope_theta, rope_scaling; v5: rope_parameters). Throws UserError (input) with the file and the key if a key
// is missing, wrong or not supported.
Config read_config(const JsonObject&, const Usual&);

// Parts of read_config(), for families with other keys.
// read_padding: a negative pad_token_id counts from the end of vocab_size, as torch counts its padding_idx.
void read_padding(Config&, const JsonObject&, std::int64_t usual);
void read_heads(Config&, const JsonObject&, const Usual&);
Activation read_activation(const JsonObject&, std::string_view key, const std::string& usual);
float read_dropout(const JsonObject&, std::string_view key, double usual);
// Returns `value` if the key is absent, and `when_null` if it is present (null included) or if `value` is 0.
std::int64_t when_absent(const JsonObject&, std::string_view key, std::int64_t value, std::int64_t when_null);
// Applies layer_types, if the key exists: sliding_attention layers get this window, full_attention layers
// none.
void read_layer_types(Config&, const JsonObject&, std::int64_t window);

}  // namespace ft::decoder
