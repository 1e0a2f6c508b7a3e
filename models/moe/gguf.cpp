// GGUF's architectures llama (Mixtral), qwen2moe, qwen3moe and olmoe.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "models/decoder/gguf.h"
#include "models/moe/family.h"
#include "models/moe/gguf.h"

namespace ft::moe {
namespace {

constexpr std::array kGgufOfMixtral = {GgufName{"block_sparse_moe.gate", "ffn_gate_inp"},
                                       GgufName{"block_sparse_moe.experts.%.w1", "ffn_gate_exps"},
                                       GgufName{"block_sparse_moe.experts.%.w3", "ffn_up_exps"},
                                       GgufName{"block_sparse_moe.experts.%.w2", "ffn_down_exps"}};
constexpr std::array kBlocksOfMixtral = {
    GgufBlocks{"model.layers.", "blk.", decoder::kGgufOfLayers, kGgufOfMixtral}};
constexpr std::array kBlocksOfOthers = {
    GgufBlocks{"model.layers.", "blk.", decoder::kGgufOfLayers, kGgufOfLayers}};
constexpr GgufNames kNamesOfMixtral{decoder::kGgufModules, kBlocksOfMixtral},
    kNamesOfOthers{decoder::kGgufModules, kBlocksOfOthers};

// Throws UserError (input) if a setting differs from the one that llama.cpp assumes.
void check(const Config& c, const std::string& config_json) {
  const auto refuse = [&](const char* key, const char* wanted) {
    throw UserError(Exit::input,
                    str(config_json, ": ", key, ": GGUF's ", c.model_type, " models have ", wanted));
  };
  require_experts_everywhere(c, config_json);
  const bool normalised = c.model_type == "qwen3_moe" || c.model_type == "mixtral";
  if (c.rule.normalised != normalised) refuse("norm_topk_prob", normalised ? "true" : "false");
  if (c.norms_whole_rows && c.key_width() != c.hidden_size)
    refuse("num_key_value_heads", "as many keys as hidden_size");
  if (c.model_type != "mixtral" && c.qkv_bias != (c.model_type == "qwen2_moe"))
    refuse(c.model_type == "qwen2_moe" ? "qkv_bias" : "attention_bias",
           c.model_type == "qwen2_moe" ? "true" : "false");
}

}  // namespace

void require_experts_everywhere(const Config& c, const std::string& config_json) {
  if (std::ranges::find(c.sparse, false) != c.sparse.end())
    throw UserError(Exit::input, str(config_json, ": mlp_only_layers, decoder_sparse_step: GGUF's ",
                                     c.model_type, " models have experts in every layer"));
}

void add_gguf_experts(GgufKeys& keys, const Config& c, const std::string& architecture) {
  const auto add = [&](const char* key, std::int64_t n) {
    keys.emplace_back(architecture + key, static_cast<std::uint32_t>(n));
  };
  add(".expert_count", c.experts);
  add(".expert_used_count", c.choices);
  if (c.model_type.starts_with("qwen")) add(".expert_feed_forward_length", c.expert_width);
  if (c.shared_width > 0) add(".expert_shared_feed_forward_length", c.shared_width);
}

GgufModel make_gguf(const std::string& config_json) {
  const Config c = read_config(config_json);
  check(c, config_json);
  const bool mixtral = c.model_type == "mixtral";
  std::string architecture = mixtral ? "llama" : c.model_type;
  std::erase(architecture, '_');
  GgufModel g{.architecture = architecture,
              .vocab_size = c.vocab_size,
              .names = mixtral ? kNamesOfMixtral : kNamesOfOthers,
              .rope_factors = decoder::gguf_rope_factors(c.rope),
              .ignored_window = decoder::gguf_ignored_window(c)};
  g.keys = decoder::gguf_keys(c, architecture, config_json);
  add_gguf_experts(g.keys, c, architecture);
  if (mixtral) g.permuted = decoder::gguf_permuted(c);
  return g;
}

Json config_of_gguf(const GgufKeyReader& keys) {
  const std::string& architecture = keys.architecture();
  const bool mixtral = architecture == "llama", qwen2 = architecture == "qwen2moe",
             qwen3 = architecture == "qwen3moe";
  Json config = decoder::gguf_config(keys, mixtral ? "mixtral"
                                           : qwen2 ? "qwen2_moe"
                                           : qwen3 ? "qwen3_moe"
                                                   : "olmoe");
  config[mixtral ? "num_local_experts" : "num_experts"] = keys.whole("expert_count");
  config["num_experts_per_tok"] = keys.whole("expert_used_count");
  if (mixtral) return config;
  config["norm_topk_prob"] = keys.flag_or("expert_weights_norm", qwen3);
  if (!qwen2 && !qwen3) return config;
  config["moe_intermediate_size"] = keys.whole("expert_feed_forward_length");
  if (qwen2) config["shared_expert_intermediate_size"] = keys.whole("expert_shared_feed_forward_length");
  config["decoder_sparse_step"] = 1;
  config["mlp_only_layers"] = Json::array();
  return config;
}

}  // namespace ft::moe
