#include "models/qwen3_next/config.h"

#include <algorithm>

#include "models/text_config.h"

namespace ft::qwen3_next {
namespace {

// Defaults of transformers' config classes for absent keys.
decoder::Usual usual_of(const std::string& type) {
  decoder::Usual usual{.key_value_heads = 2, .head_dim = 256, .max_position = 32768};
  usual.rope = {.part = 0.25, .parts = true, .odd = true};
  if (type == "qwen3_5_text") {
    usual.key_value_heads = 4;
    usual.intermediate_size = 12288;
  } else {
    usual.intermediate_size = 5632;
  }
  return usual;
}

// Reads the layers with a state. Without layer_types every full_attention_interval-th, counted from 1, has
// attention.
void read_layers(Config& c, const JsonObject& j) {
  c.recurrent.assign(static_cast<std::size_t>(c.num_hidden_layers), true);
  const std::int64_t interval = j.positive_or("full_attention_interval", 4);
  for (std::size_t i = 0; i < c.recurrent.size(); ++i)
    c.recurrent[i] = static_cast<std::int64_t>(i + 1) % interval != 0;
  if (!j.has("layer_types")) return;
  const std::vector<std::string> types = j.texts("layer_types");
  if (types.size() != c.recurrent.size()) j.refuse("layer_types", "a list with one entry for each layer");
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (types[i] != "linear_attention" && types[i] != "full_attention")
      j.refuse("layer_types", "a list of linear_attention and full_attention");
    c.recurrent[i] = types[i] == "linear_attention";
  }
}

void read_delta_net(Config& c, const JsonObject& j) {
  const auto size = [&](const char* key, std::int64_t usual) { return j.integer_or(key, usual, 1, 4096); };
  c.delta = {.keys = size("linear_num_key_heads", 16),
             .values = size("linear_num_value_heads", 32),
             .key_width = size("linear_key_head_dim", 128),
             .value_width = size("linear_value_head_dim", 128)};
  if (c.delta.values % c.delta.keys != 0)
    j.refuse("linear_num_value_heads", str("a multiple of linear_num_key_heads (", c.delta.keys, ")"));
  c.taps = j.integer_or("linear_conv_kernel_dim", 4, 1, op::kMostTaps);
  if (c.delta.key_columns() > decoder::kMaxSize || c.delta.value_columns() > decoder::kMaxSize)
    j.refuse("linear_num_value_heads", "fewer heads: ft has no room for so many columns");
}

}  // namespace

Config read_config(const std::string& config_json) {
  const JsonObject whole = JsonObject::read(config_json), j = text_settings(whole);
  const std::string type = j.text("model_type");
  if (type != "qwen3_next" && type != "qwen3_5_text" && type != "qwen3_5_moe_text")
    j.refuse("model_type", "qwen3_next, qwen3_5_text or qwen3_5_moe_text");
  Config c{{decoder::read_config(j, usual_of(type))}};
  c.norm_offset = 1;
  c.qk_norm = true;
  c.qkv_bias = c.o_bias = j.boolean_or("attention_bias", false);
  c.by_heads = type == "qwen3_next";
  c.experts_too = type != "qwen3_5_text";
  c.nested = whole.has("text_config");
  if (!j.boolean_or("attn_output_gate", true))
    j.refuse("attn_output_gate", "true: the attention of these models has a gate");
  read_layers(c, j);
  if (c.hidden_act != Activation::silu && std::ranges::count(c.recurrent, true) > 0)
    j.refuse("hidden_act", "silu: ft has no other activation for the convolutions of gated delta nets");
  read_delta_net(c, j);
  if (c.experts_too) moe::read_experts(c, j);
  return c;
}

}  // namespace ft::qwen3_next
