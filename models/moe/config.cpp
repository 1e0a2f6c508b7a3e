#include "models/moe/config.h"

#include <algorithm>
#include <array>

namespace ft::moe {
namespace {

// Defaults of transformers' config classes for absent keys.
struct Absent {
  const char* model_type;
  decoder::Usual usual;
  std::int64_t experts, choices, expert_width, shared_width;  // expert_width 0: intermediate_size
  bool normalised;
  double coefficient;
};
const std::array kAbsent = {
    Absent{"mixtral",
           {.key_value_heads = 8, .max_position = 131072, .eps = 1e-5, .rope = {.theta = 1e6}},
           8,
           2,
           0,
           0,
           true,
           0.001},
    Absent{"qwen2_moe", {.key_value_heads = 16, .max_position = 32768}, 60, 4, 1408, 5632, false, 0.001},
    Absent{"qwen3_moe", {.key_value_heads = 4, .max_position = 32768}, 128, 8, 768, 0, false, 0.001},
    // Only the experts of these two: models/qwen3_next reads the rest.
    Absent{"qwen3_next", {}, 512, 10, 512, 512, false, 0.001},
    Absent{"qwen3_5_moe_text", {}, 256, 8, 512, 512, true, 0.001},
    // gpt-oss: only its experts; models/gpt_oss reads the rest.
    Absent{"gpt_oss", {}, 128, 4, 0, 0, true, 0.001},
    Absent{"olmoe", {.max_position = 4096, .padding = 1, .eps = 1e-5}, 64, 8, 0, 0, false, 0.01},
};
const Absent& absent_of(const JsonObject& j) {
  const std::string type = j.text("model_type");
  const auto at = std::ranges::find_if(kAbsent, [&](const Absent& a) { return type == a.model_type; });
  require(at != kAbsent.end(), "a model type without experts");
  return *at;
}

void read_attention(Config& c, const JsonObject& j) {
  if (c.model_type == "mixtral") return;
  if (c.model_type == "qwen2_moe") {
    c.qkv_bias = j.boolean_or("qkv_bias", true);
    return;
  }
  c.qkv_bias = c.o_bias = j.boolean_or("attention_bias", false);
  c.qk_norm = c.model_type == "qwen3_moe";
  c.norms_whole_rows = c.model_type == "olmoe";
  if (j.has("clip_qkv")) j.refuse("clip_qkv", "null: ft does not clip queries, keys and values");
}

// Reads the windows. Mixtral and Qwen3-MoE have them in all layers, Qwen2-MoE in every other one of the first
// max_window_layers.
void read_windows(Config& c, const JsonObject& j) {
  if (c.model_type == "olmoe") return;
  const bool qwen = c.model_type != "mixtral";
  if (qwen && !j.boolean_or("use_sliding_window", false)) return;
  const std::int64_t usual = qwen ? decoder::when_absent(j, "sliding_window", 4096, 0) : 0;
  if (!j.has("sliding_window") && usual == 0) return;
  const std::int64_t window = j.positive_or("sliding_window", usual);
  const bool some = c.model_type == "qwen2_moe";
  const std::int64_t most = j.integer_or("max_window_layers", 28, 0);
  for (std::int64_t i = 0; i < c.num_hidden_layers; ++i)
    if (!some || (i % 2 == 0 && i < most)) c.windows[static_cast<std::size_t>(i)] = window;
  if (some) decoder::read_layer_types(c, j, window);
}

// Sets the layers that have experts. Qwen: every decoder_sparse_step-th layer except mlp_only_layers; others:
// all.
void read_layers(Config& c, const JsonObject& j) {
  c.sparse.assign(static_cast<std::size_t>(c.num_hidden_layers), true);
  if (!c.model_type.starts_with("qwen") || c.model_type == "qwen3_5_moe_text") return;
  const std::int64_t step = j.positive_or("decoder_sparse_step", 1);
  for (std::int64_t i = 0; i < c.num_hidden_layers; ++i)
    c.sparse[static_cast<std::size_t>(i)] = (i + 1) % step == 0;
  if (!j.has("mlp_only_layers")) return;
  for (const std::int64_t i : j.integers("mlp_only_layers"))
    if (0 <= i && i < c.num_hidden_layers) c.sparse[static_cast<std::size_t>(i)] = false;
}

}  // namespace

void read_experts(Config& c, const JsonObject& j) {
  const Absent& absent = absent_of(j);
  read_layers(c, j);
  const char* key = j.has("num_local_experts") ? "num_local_experts" : "num_experts";
  c.experts = j.integer_or(key, absent.experts, 1, std::int64_t{1} << 16);
  c.choices = j.positive_or("num_experts_per_tok", absent.choices);
  if (c.choices > c.experts)
    j.refuse("num_experts_per_tok", str("at most the number of experts (", c.experts, ")"));
  c.expert_width = absent.expert_width == 0
                       ? c.intermediate_size
                       : j.integer_or("moe_intermediate_size", absent.expert_width, 1, decoder::kMaxSize);
  if (absent.shared_width > 0)
    c.shared_width =
        j.integer_or("shared_expert_intermediate_size", absent.shared_width, 1, decoder::kMaxSize);
  c.rule.normalised = absent.normalised || j.boolean_or("norm_topk_prob", c.model_type == "qwen3_next");
  if (j.number_or("router_jitter_noise", 0) != 0)
    j.refuse("router_jitter_noise", "0: ft does not add noise to the inputs of routers");
  const double coefficient = j.number_or("router_aux_loss_coef", absent.coefficient);
  if (j.boolean_or("output_router_logits", false)) c.balance = static_cast<float>(coefficient);
}

Config read_config(const std::string& config_json) {
  const JsonObject j = JsonObject::read(config_json);
  Config c{decoder::read_config(j, absent_of(j).usual)};
  read_attention(c, j);
  read_windows(c, j);
  read_experts(c, j);
  return c;
}

}  // namespace ft::moe
