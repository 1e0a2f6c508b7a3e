// The config.json of a LLaMA-like decoder: LLaMA, Mistral, Qwen2 and Qwen3 differ only in these settings.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "engine/ops/ops.h"
#include "models/rope.h"

namespace ft::llama {

struct Config {
  std::string model_type;
  std::int64_t vocab_size = 0, hidden_size = 0, intermediate_size = 0, num_hidden_layers = 0;
  std::int64_t num_attention_heads = 0, num_key_value_heads = 0, head_dim = 0, max_position_embeddings = 0;
  float rms_norm_eps = 1e-6f;
  float initializer_range = 0.02f;
  Activation hidden_act = Activation::silu;
  bool tie_word_embeddings = false;
  bool qkv_bias = false, o_bias = false, mlp_bias = false, qk_norm = false;
  std::vector<std::int64_t> windows;  // of each layer; 0: full attention
  Rope rope;
};

// Reads config.json of either generation (v4: rope_theta, rope_scaling; v5: rope_parameters).
// UserError(Exit::input) names the file and the key that is missing, wrong or not supported.
Config read_config(const std::filesystem::path& config_json);

}  // namespace ft::llama
