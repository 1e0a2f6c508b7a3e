// GGUF's architectures deepseek2 (DeepSeek V2 and V3, GLM-4.7-Flash) and glm4moe (GLM-4.5). In deepseek2 the
// rows of kv_b_proj are two tensors for each head: those of the keys, transposed, and those of the values.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/core/error.h"
#include "models/decoder/gguf.h"
#include "models/deepseek/config.h"
#include "models/deepseek/family.h"
#include "models/moe/gguf.h"

namespace ft::deepseek {
namespace {

constexpr std::array kOfLayers = {GgufName{"self_attn.q_a_proj", "attn_q_a"},
                                  GgufName{"self_attn.q_a_layernorm", "attn_q_a_norm"},
                                  GgufName{"self_attn.q_b_proj", "attn_q_b"},
                                  GgufName{"self_attn.kv_a_proj_with_mqa", "attn_kv_a_mqa"},
                                  GgufName{"self_attn.kv_a_layernorm", "attn_kv_a_norm"},
                                  GgufName{"mlp.gate.e_score_correction_bias", "exp_probs_b.bias"},
                                  GgufName{"mlp.shared_experts.gate_proj", "ffn_gate_shexp"},
                                  GgufName{"mlp.shared_experts.up_proj", "ffn_up_shexp"},
                                  GgufName{"mlp.shared_experts.down_proj", "ffn_down_shexp"}};
constexpr std::array kOfGlmLayers = {GgufName{"post_attention_layernorm", "post_attention_norm"},
                                     GgufName{"mlp.gate.e_score_correction_bias", "exp_probs_b.bias"},
                                     GgufName{"mlp.shared_experts.gate_proj", "ffn_gate_shexp"},
                                     GgufName{"mlp.shared_experts.up_proj", "ffn_up_shexp"},
                                     GgufName{"mlp.shared_experts.down_proj", "ffn_down_shexp"}};
constexpr std::array kBlocks = {
    GgufBlocks{"model.layers.", "blk.", kOfLayers, decoder::kGgufOfLayers, moe::kGgufOfLayers}};
constexpr std::array kGlmBlocks = {
    GgufBlocks{"model.layers.", "blk.", kOfGlmLayers, decoder::kGgufOfLayers, moe::kGgufOfLayers}};
constexpr GgufNames kNames{decoder::kGgufModules, kBlocks}, kGlmNames{decoder::kGgufModules, kGlmBlocks};

// Multiplied without adapters, and kv_b_proj is two tensors.
constexpr std::array<std::string_view, 5> kNoAdapters = {".q_proj", ".q_a_proj", ".q_b_proj",
                                                         ".kv_a_proj_with_mqa", ".kv_b_proj"};

// llama_expert_gating_func_type
constexpr std::uint32_t kSoftmax = 1, kSigmoid = 2;

// YaRN's usual factor on cos and sin, which readers divide by.
double usual_factor(const Rope& r) { return r.factor <= 1 ? 1 : 1 + 0.1 * std::log(r.factor); }

// Throws UserError (input) if a setting differs from the value that readers of GGUF assume.
void require_usual(const Config& c, const std::string& config_json) {
  const auto refuse = [&](const char* what) {
    throw UserError(Exit::input, str(config_json, ": in GGUF's ", c.model_type, " models ", what));
  };
  if (!std::ranges::is_sorted(c.sparse)) refuse("the layers without experts are the first ones");
  if (c.rule.kept < c.rule.groups && c.rule.best != 2)
    refuse("a group of experts has the score of its two best (topk_method noaux_tc)");
  if (!c.latent) return;
  if (c.qkv_bias) refuse("attention_bias is false");
  if (!c.latent->neighbours) refuse("rope_interleave is true");
  if (c.rope.type == Rope::Type::yarn && (c.rope.attention_factor != 1 || c.rope.mscale_all_dim == 0))
    refuse("yarn's mscale and mscale_all_dim are equal, and above 0");
}

void add_experts(GgufKeys& keys, const Config& c, const std::string& arch) {
  const auto add = [&](const char* key, std::int64_t n) {
    keys.emplace_back(arch + key, static_cast<std::uint32_t>(n));
  };
  add(".leading_dense_block_count", std::ranges::count(c.sparse, false));
  add(".expert_count", c.experts);
  add(".expert_used_count", c.choices);
  add(".expert_feed_forward_length", c.expert_width);
  add(".expert_shared_count", c.shared_width / c.expert_width);
  add(".expert_gating_func", c.rule.sigmoid ? kSigmoid : kSoftmax);
  keys.emplace_back(arch + ".expert_weights_scale", c.rule.scale);
  keys.emplace_back(arch + ".expert_weights_norm", c.rule.normalised);
  if (c.rule.groups == 1) return;
  add(".expert_group_count", c.rule.groups);
  add(".expert_group_used_count", c.rule.kept);
}

// Sets the keys of attention: readers keep the low-rank keys and values, which all heads share.
void set_attention(GgufKeys& keys, const Config& c, const std::string& arch) {
  const Latent& l = *c.latent;
  const auto set = [&](const char* key, std::int64_t n) {
    decoder::set_gguf_key(keys, arch + ".attention." + key, static_cast<std::uint32_t>(n));
  };
  set("head_count_kv", 1);
  if (l.query_rank > 0) set("q_lora_rank", l.query_rank);
  set("kv_lora_rank", l.rank);
  set("key_length", l.rank + l.heads.rotated);
  set("value_length", l.rank);
  set("key_length_mla", l.heads.key());
  set("value_length_mla", l.heads.value);
  if (c.rope.type == Rope::Type::yarn)
    keys.emplace_back(arch + ".rope.scaling.yarn_log_multiplier",
                      static_cast<float>(0.1 * c.rope.mscale_all_dim));
}

std::vector<GgufPart> parts_of(const LatentHeads& h) {
  constexpr std::string_view kModule = "self_attn.kv_b_proj.weight";
  return {
      {.module = kModule,
       .gguf = "attn_k_b.weight",
       .matrices = h.count,
       .ranges = {{0, h.plain}},
       .turned = true},
      {.module = kModule, .gguf = "attn_v_b.weight", .matrices = h.count, .ranges = {{h.plain, h.value}}}};
}

Json latent_config(const GgufKeyReader& keys) {
  const bool v2 = keys.real_or("expert_gating_func", kSoftmax) == kSoftmax;
  if (!keys.has("attention.key_length_mla"))
    keys.refuse("attn_kv_b in one tensor, as old files have it; convert the model again");
  const std::int64_t rotated = keys.whole("rope.dimension_count"),
                     key = keys.whole("attention.key_length_mla");
  if (rotated >= key) keys.refuse("all columns of a head have positions");
  Json config = decoder::gguf_config_of_heads(keys, v2 ? "deepseek_v2" : "deepseek_v3", rotated, rotated);
  config["num_key_value_heads"] = config["num_attention_heads"];
  config["q_lora_rank"] = nullptr;
  if (keys.has("attention.q_lora_rank")) config["q_lora_rank"] = keys.whole("attention.q_lora_rank");
  config["kv_lora_rank"] = keys.whole("attention.kv_lora_rank");
  config["qk_rope_head_dim"] = rotated;
  config["qk_nope_head_dim"] = key - rotated;
  config["v_head_dim"] = keys.whole("attention.value_length_mla");
  const bool grouped = keys.whole_or("expert_group_used_count", 1) < keys.whole_or("expert_group_count", 1);
  if (v2) config["topk_method"] = grouped ? "group_limited_greedy" : "greedy";
  if (config.contains("rope_scaling") && config["rope_scaling"]["rope_type"] == "yarn") {
    const double stored = keys.real_or("rope.scaling.yarn_log_multiplier", 0) / 0.1;
    const double mscale = std::round(stored * 1e6) / 1e6;  // from f32
    Json& scaling = config["rope_scaling"];
    scaling["mscale"] = mscale;
    scaling["mscale_all_dim"] = mscale;
  }
  return config;
}

}  // namespace

GgufModel make_gguf(const std::string& config_json) {
  Config c = read_config(config_json);
  require_usual(c, config_json);
  const std::string arch = c.latent ? "deepseek2" : "glm4moe";
  GgufModel g{.architecture = arch,
              .vocab_size = c.vocab_size,
              .names = c.latent ? kNames : kGlmNames,
              .rope_factors = decoder::gguf_rope_factors(c.rope)};
  if (c.latent) c.rope.attention_factor = usual_factor(c.rope);
  g.keys = decoder::gguf_keys(c, arch, config_json);
  if (c.latent) set_attention(g.keys, c, arch);
  if (c.latent) g.parts = parts_of(c.latent->heads);
  if (c.latent) g.no_adapters = kNoAdapters;
  add_experts(g.keys, c, arch);
  return g;
}

Json config_of_gguf(const GgufKeyReader& keys) {
  const bool latent = keys.architecture() == "deepseek2";
  Json config = latent ? latent_config(keys) : decoder::gguf_config(keys, "glm4_moe", true);
  // Leaves out layers that guess further tokens, which are the last ones.
  config["num_hidden_layers"] =
      keys.whole("block_count") -
      static_cast<std::int64_t>(std::clamp(keys.real_or("nextn_predict_layers", 0), 0.0, 1e9));
  config["n_routed_experts"] = keys.whole("expert_count");
  config["num_experts_per_tok"] = keys.whole("expert_used_count");
  config["moe_intermediate_size"] = keys.whole("expert_feed_forward_length");
  config["n_shared_experts"] = keys.whole("expert_shared_count");
  config["first_k_dense_replace"] =
      static_cast<std::int64_t>(std::clamp(keys.real_or("leading_dense_block_count", 0), 0.0, 1e9));
  config["routed_scaling_factor"] = keys.real_or("expert_weights_scale", 1);
  config["norm_topk_prob"] = keys.flag_or("expert_weights_norm", false);
  config["n_group"] = keys.whole_or("expert_group_count", 1);
  config["topk_group"] = keys.whole_or("expert_group_used_count", 1);
  if (!latent) {
    config["attention_bias"] = keys.has_tensor("blk.0.attn_q.bias");
    config["use_qk_norm"] = keys.has_tensor("blk.0.attn_q_norm.weight");
  }
  return config;
}

}  // namespace ft::deepseek
