#include "models/gemma4/config.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "models/text_config.h"

namespace ft::gemma4 {
namespace {

// Defaults of transformers' config class for absent keys.
constexpr decoder::Usual kUsual{.key_value_heads = 4,
                                .head_dim = 256,
                                .max_position = 131072,
                                .padding = 0,
                                .intermediate_size = 9216,
                                .tied = true,
                                .activation_key = "hidden_activation",
                                .activation = "gelu_pytorch_tanh"};

// Sets the windows: every sixth layer, counted from 1, has full attention; layer_types overrides this. The
// last layer is always full.
void read_windows(Config& c, const JsonObject& j) {
  const std::int64_t window = j.positive_or("sliding_window", 512);
  for (std::size_t i = 0; i < c.windows.size(); ++i) c.windows[i] = (i + 1) % 6 == 0 ? 0 : window;
  decoder::read_layer_types(c, j, window);
  c.windows.back() = 0;
}

// Returns the number of the layer that a key of per_layer_config names.
std::int64_t layer_of(const Config& c, const JsonObject& layers, const std::string& key) {
  std::int64_t layer = -1;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), layer);
  if (error != std::errc{} || end != key.data() + key.size() || layer < 0 || layer >= c.num_hidden_layers)
    layers.refuse(key, str("named after a layer below ", c.num_hidden_layers));
  return layer;
}

void require_heads(const Config& c, const JsonObject& j, const char* key, std::int64_t heads,
                   std::int64_t width) {
  if (c.num_attention_heads % heads != 0)
    j.refuse(key, str("a divisor of num_attention_heads (", c.num_attention_heads, ")"));
  if (width % 2 != 0) j.refuse("head_dim", "even in all layers");
}

// Reads the heads of each layer: transformers 5 writes per_layer_config, with the layers that differ; the
// released files have keys for the full layers. All layers of a kind must have equal heads.
void read_full_heads(Config& c, const JsonObject& j) {
  if (!j.has("per_layer_config")) {
    c.full_head_dim = j.integer_or("global_head_dim", 512, 2, 4096);
    c.full_key_value_heads = c.num_key_value_heads;
    if (c.values_are_keys)
      c.full_key_value_heads =
          j.integer_or("num_global_key_value_heads", c.num_key_value_heads, 1, decoder::kMaxSize);
    return require_heads(c, j, "num_global_key_value_heads", c.full_key_value_heads, c.full_head_dim);
  }
  struct Heads {
    std::int64_t key_value, width;
    bool operator==(const Heads&) const = default;
  };
  std::vector<Heads> heads(c.windows.size(), {c.num_key_value_heads, c.head_dim});
  const JsonObject layers = j.object("per_layer_config");
  for (const std::string& key : layers.keys()) {
    if (!layers.has(key)) continue;
    const JsonObject own = layers.object(key);
    for (const std::string& setting : own.keys())
      if (setting != "head_dim" && setting != "num_key_value_heads")
        own.refuse(setting, "the same for all layers: ft reads head_dim and num_key_value_heads of a layer");
    Heads& h = heads[static_cast<std::size_t>(layer_of(c, layers, key))];
    h.width = own.integer_or("head_dim", h.width, 2, 4096);
    h.key_value = own.integer_or("num_key_value_heads", h.key_value, 1, decoder::kMaxSize);
    require_heads(c, own, "num_key_value_heads", h.key_value, h.width);
  }
  const Heads full = heads.back();
  std::optional<Heads> with_window;
  for (std::size_t i = 0; i < heads.size(); ++i) {
    if (c.windows[i] > 0 && !with_window) with_window = heads[i];
    if (heads[i] != (c.windows[i] > 0 ? *with_window : full))
      j.refuse("per_layer_config", "an object that gives all layers of a kind the same heads");
  }
  c.full_head_dim = full.width;
  c.full_key_value_heads = full.key_value;
  if (!with_window) return;
  c.head_dim = with_window->width;
  c.num_key_value_heads = with_window->key_value;
}

// Reads the rotation of a kind of layer. Proportional positions rotate the whole head, but only the first
// pairs have a frequency other than 0.
Rope read_rope_of(const Config& c, const JsonObject& j, const char* kind, std::int64_t width) {
  const bool full = kind == std::string_view("full_attention");
  Rope r{.head_dim = width, .max_position = c.max_position_embeddings};
  const bool usual = !j.has("rope_parameters") || !j.object("rope_parameters").has(kind);
  double part = 1;
  if (usual) {
    if (full) part = 0.25, r.theta = 1e6, r.type = Rope::Type::proportional;
  } else {
    const JsonObject own = j.object("rope_parameters").object(kind);
    r.theta = own.positive_number_or("rope_theta", 10000);
    const std::string type = own.text_or("rope_type", "default");
    if (type == "proportional") {
      r.type = Rope::Type::proportional;
      r.factor = own.positive_number_or("factor", 1);
      part = own.number_or("partial_rotary_factor", 1);
      if (part < 0 || part > 1) own.refuse("partial_rotary_factor", "from 0 to 1");
    } else if (type != "default") {
      own.refuse("rope_type", "default or proportional");
    }
  }
  r.turning = static_cast<std::int64_t>(part * static_cast<double>(width)) / 2;
  return r;
}

void read_sharing(Config& c, const JsonObject& j) {
  c.borrowing = j.integer_or("num_kv_shared_layers", 0, 0);
  c.borrowers_are_wide = j.boolean_or("use_double_wide_mlp", false);
  if (c.borrowing >= c.num_hidden_layers)
    j.refuse("num_kv_shared_layers", str("below num_hidden_layers (", c.num_hidden_layers, ")"));
  for (std::int64_t i = c.num_hidden_layers - c.borrowing; i < c.num_hidden_layers; ++i)
    if (c.lender_of(i) < 0)
      j.refuse("num_kv_shared_layers",
               str("lower: layer ", i, " is to use the keys of an earlier ",
                   c.full(i) ? "full_attention" : "sliding_attention", " layer, and there is none"));
}

void read_experts(Config& c, const JsonObject& j) {
  if (!j.boolean_or("enable_moe_block", false)) return;
  c.experts = j.integer("num_experts", 1, std::int64_t{1} << 16);
  c.choices = j.integer("top_k_experts", 1);
  if (c.choices > c.experts) j.refuse("top_k_experts", str("at most num_experts (", c.experts, ")"));
  c.expert_width = j.integer("moe_intermediate_size", 1, decoder::kMaxSize);
}

void read_per_layer(Config& c, const JsonObject& j) {
  c.per_layer =
      j.integer_or("hidden_size_per_layer_input",
                   decoder::when_absent(j, "hidden_size_per_layer_input", 256, 0), 0, decoder::kMaxSize);
  if (c.per_layer > 0 && j.positive_or("vocab_size_per_layer_input", 262144) != c.vocab_size)
    j.refuse("vocab_size_per_layer_input", str("vocab_size (", c.vocab_size, ")"));
  if (c.per_layer * c.num_hidden_layers > decoder::kMaxSize)
    j.refuse("hidden_size_per_layer_input", "smaller: ft has no room for so many columns");
}

void read_placeholders(Config& c, const JsonObject& whole) {
  if (c.padding < 0) return;
  for (const auto& [key, usual] : {std::pair{"image_token_id", 258880}, std::pair{"video_token_id", 258884},
                                   std::pair{"audio_token_id", 258881}})
    c.placeholders.push_back(static_cast<std::int32_t>(whole.integer_or(key, usual, 0, decoder::kMaxSize)));
}

}  // namespace

std::int64_t Config::lender_of(std::int64_t layer) const {
  for (std::int64_t i = num_hidden_layers - borrowing; i-- > 0;)
    if (full(i) == full(layer)) return i;
  return -1;
}

decoder::Config Config::of_layer(std::int64_t layer) const {
  decoder::Config c = *this;
  if (full(layer)) {
    c.head_dim = full_head_dim;
    c.num_key_value_heads = full_key_value_heads;
  }
  if (borrowers_are_wide && borrows(layer)) c.intermediate_size *= 2;
  return c;
}

Config read_config(const std::string& config_json) {
  const JsonObject whole = JsonObject::read(config_json), j = text_settings(whole);
  if (j.text("model_type") != "gemma4_text") j.refuse("model_type", "gemma4_text");
  Config c{decoder::read_config(j, kUsual)};
  c.nested = whole.has("text_config");
  if (c.nested) read_placeholders(c, whole);
  c.qk_norm = true;
  c.qkv_bias = c.o_bias = j.boolean_or("attention_bias", false);
  if (j.text_or("use_bidirectional_attention", "vision") != "vision")
    j.refuse("use_bidirectional_attention", "vision or null: ft trains causal models");
  c.logit_cap = static_cast<float>(
      j.has("final_logit_softcapping") ? j.positive_number_or("final_logit_softcapping", 1) : 0);
  c.values_are_keys = j.boolean_or("attention_k_eq_v", false);
  read_windows(c, j);
  read_full_heads(c, j);
  c.rope = read_rope_of(c, j, "sliding_attention", c.head_dim);
  c.full_rope = read_rope_of(c, j, "full_attention", c.full_head_dim);
  read_sharing(c, j);
  read_per_layer(c, j);
  read_experts(c, j);
  return c;
}

}  // namespace ft::gemma4
