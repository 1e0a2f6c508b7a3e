#include "models/gemma/config.h"

#include <cmath>

namespace ft::gemma {
namespace {

constexpr decoder::Usual kGemma2{.key_value_heads = 4,
                                 .head_dim = 256,
                                 .max_position = 8192,
                                 .padding = 0,
                                 .tied = true,
                                 .activation_key = "hidden_activation",
                                 .activation = "gelu_pytorch_tanh"};

float read_cap(const JsonObject& j, const char* key, std::int64_t usual) {
  if (!j.has(key)) return static_cast<float>(decoder::when_absent(j, key, usual, 0));
  return static_cast<float>(j.positive_number_or(key, 1));
}

// Sets the windows: every `pattern`-th layer, counted from 1, has full attention. layer_types overrides this.
void read_windows(Config& c, const JsonObject& j, std::int64_t pattern) {
  const std::int64_t window =
      j.positive_or("sliding_window", decoder::when_absent(j, "sliding_window", 4096, 0));
  for (std::size_t i = 0; i < c.windows.size(); ++i)
    c.windows[i] = static_cast<std::int64_t>(i + 1) % pattern == 0 ? 0 : window;
  decoder::read_layer_types(c, j, window);
}

// Reads the rotations: full layers use rope_theta with rope_scaling, layers with a window
// rope_local_base_freq. In transformers 5 rope_parameters has an object for each kind of layer.
void read_ropes(Config& c, const JsonObject& j) {
  Rope local{.head_dim = c.head_dim, .max_position = c.max_position_embeddings};
  local.theta = j.positive_number_or("rope_local_base_freq", 10000);
  if (j.has("rope_parameters")) {
    const JsonObject by_type = j.object("rope_parameters");
    const auto read = [&](Rope& r, const char* type, double usual) {
      r = {.head_dim = c.head_dim, .max_position = c.max_position_embeddings, .theta = usual};
      if (!by_type.has(type)) return;
      const JsonObject o = by_type.object(type);
      r.theta = o.positive_number_or("rope_theta", usual);
      if (o.number_or("partial_rotary_factor", 1) != 1) o.refuse("partial_rotary_factor", "1");
      read_rope_scaling(r, o);
    };
    read(c.rope, "full_attention", 1e6);
    read(local, "sliding_attention", 1e4);
  }
  c.local_rope = local;
}

}  // namespace

Config read_config(const std::string& config_json) {
  const JsonObject j = JsonObject::read(config_json);
  const bool three = j.text("model_type") == "gemma3_text";
  decoder::Usual usual = kGemma2;
  if (three) {
    usual.max_position = 131072;
    usual.rope.theta = 1e6;
  }
  Config c{decoder::read_config(j, usual)};
  c.norm_offset = 1;
  c.qk_norm = three;
  c.qkv_bias = c.o_bias = j.boolean_or("attention_bias", false);
  if (j.boolean_or("use_bidirectional_attention", false))
    j.refuse("use_bidirectional_attention", "false: ft trains causal models");
  c.query_pre_attn_scalar = static_cast<float>(j.positive_number_or("query_pre_attn_scalar", 256));
  if (!three) c.score_cap = read_cap(j, "attn_logit_softcapping", 50);  // Gemma 3 ignores the key
  c.logit_cap = read_cap(j, "final_logit_softcapping", three ? 0 : 30);
  const char* key = j.has("sliding_window_pattern") ? "sliding_window_pattern" : "_sliding_window_pattern";
  read_windows(c, j, three ? j.positive_or(key, 6) : 2);
  if (three) read_ropes(c, j);
  return c;
}

float embedding_scale(std::int64_t width, DType dtype) {
  const float scale = std::sqrt(static_cast<float>(width));
  const auto rounded = [&](auto t) {
    from_float(t, scale);
    return to_float(t);
  };
  return dtype == DType::bf16 ? rounded(bf16{}) : dtype == DType::f16 ? rounded(f16{}) : scale;
}

}  // namespace ft::gemma
