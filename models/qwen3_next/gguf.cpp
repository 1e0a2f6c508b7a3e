// GGUF's architectures qwen35, qwen35moe and qwen3next. Several value heads share a key head. In qwen35 GGUF
// stores the first value head of every key head, then the second; Hugging Face stores value heads key head by
// key head. In qwen3next GGUF cuts in_proj_qkvz, which has a query, a key, values and gates for one key head
// after another, into all queries, keys and values, and all gates.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "models/decoder/gguf.h"
#include "models/moe/gguf.h"
#include "models/qwen3_next/config.h"
#include "models/qwen3_next/family.h"

namespace ft::qwen3_next {
namespace {

constexpr std::array kOfLayers = {GgufName{"post_attention_layernorm", "post_attention_norm"},
                                  GgufName{"linear_attn.in_proj_qkv", "attn_qkv"},
                                  GgufName{"linear_attn.in_proj_z", "attn_gate"},
                                  GgufName{"linear_attn.in_proj_b", "ssm_beta"},
                                  GgufName{"linear_attn.in_proj_a", "ssm_alpha"},
                                  GgufName{"linear_attn.in_proj_ba", "ssm_ba"},
                                  GgufName{"linear_attn.conv1d", "ssm_conv1d"},
                                  GgufName{"linear_attn.A_log", "ssm_a"},
                                  GgufName{"linear_attn.dt_bias", "ssm_dt.bias"},
                                  GgufName{"linear_attn.norm", "ssm_norm"},
                                  GgufName{"linear_attn.out_proj", "ssm_out"}};
constexpr std::array kBlocks = {GgufBlocks{"model.layers.", "blk.", kOfLayers, decoder::kGgufOfLayers}};
constexpr std::array kBlocksWithExperts = {
    GgufBlocks{"model.layers.", "blk.", kOfLayers, decoder::kGgufOfLayers, moe::kGgufOfLayers}};
constexpr GgufNames kNames{decoder::kGgufModules, kBlocks},
    kNamesWithExperts{decoder::kGgufModules, kBlocksWithExperts};

// Returns the number of layers from one with attention to the next. Throws UserError (input) for models that
// readers of GGUF cannot compute.
std::int64_t interval_of(const Config& c, const std::string& config_json) {
  const auto refuse = [&](const char* what) {
    throw UserError(Exit::input, str(config_json, ": in GGUF's ", c.model_type, " models ", what));
  };
  if (c.by_heads && !c.rule.normalised) refuse("norm_topk_prob is true");
  const auto layers = static_cast<std::int64_t>(c.recurrent.size());
  const auto first = std::ranges::find(c.recurrent, false);
  const std::int64_t interval = first - c.recurrent.begin() + 1;
  for (std::int64_t i = 0; i < layers; ++i)
    if (c.recurrent[static_cast<std::size_t>(i)] != ((i + 1) % interval != 0))
      refuse("layers with attention come at equal intervals");
  if (c.delta.key_width != c.delta.value_width) refuse("linear_key_head_dim equals linear_value_head_dim");
  if (c.qkv_bias) refuse("attention_bias is false");
  return interval;
}

std::vector<GgufModel::Permuted> permuted(const DeltaHeads& h) {
  const std::int64_t each = h.values / h.keys;
  const auto of = [&](std::string_view module, std::int64_t first, bool columns) {
    return GgufModel::Permuted{module, h.keys, GgufModel::Order::groups, each, first, columns};
  };
  const std::int64_t values = 2 * h.key_columns();  // the first row of the values
  return {of("linear_attn.in_proj_qkv", values, false), of("linear_attn.conv1d", values, false),
          of("linear_attn.in_proj_z", 0, false),        of("linear_attn.in_proj_b", 0, false),
          of("linear_attn.in_proj_a", 0, false),        of("linear_attn.A_log", 0, false),
          of("linear_attn.dt_bias", 0, false),          of("linear_attn.out_proj", 0, true)};
}

std::vector<GgufPart> parts_of(const DeltaHeads& h) {
  const std::int64_t key = h.key_width, values = h.values / h.keys * h.value_width;
  constexpr std::string_view kModule = "linear_attn.in_proj_qkvz.weight";
  return {{.module = kModule,
           .gguf = "attn_qkv.weight",
           .matrices = h.keys,
           .ranges = {{0, key}, {key, key}, {2 * key, values}},
           .form = GgufPart::Form::rows},
          {.module = kModule,
           .gguf = "attn_gate.weight",
           .matrices = h.keys,
           .ranges = {{2 * key + values, values}},
           .form = GgufPart::Form::rows}};
}

// Adds the sections of image positions, which are all equal in a text: half of the rotated columns, in three
// parts.
void add_sections(GgufKeys& keys, const Config& c, const std::string& arch) {
  const auto half = static_cast<std::int32_t>(c.rope.head_dim / 2), third = (half + 2) / 3;
  const std::int32_t second = std::min(third, half - third);
  keys.emplace_back(arch + ".rope.dimension_sections",
                    std::vector<std::int32_t>{third, second, half - third - second, 0});
}

}  // namespace

GgufModel make_gguf(const std::string& config_json) {
  const Config c = read_config(config_json);
  const std::int64_t interval = interval_of(c, config_json);
  if (c.experts_too) moe::require_experts_everywhere(c, config_json);
  const std::string arch = c.by_heads ? "qwen3next" : c.experts_too ? "qwen35moe" : "qwen35";
  GgufModel g{.architecture = arch,
              .vocab_size = c.vocab_size,
              .keys = decoder::gguf_keys(c, arch, config_json),
              .names = c.experts_too ? kNamesWithExperts : kNames,
              .rope_factors = decoder::gguf_rope_factors(c.rope),
              .permuted = c.by_heads ? std::vector<GgufModel::Permuted>{} : permuted(c.delta),
              .parts = c.by_heads ? parts_of(c.delta) : std::vector<GgufPart>{},
              .norm_offset = c.norm_offset,
              .plain_norm = "linear_attn.norm",
              .rates = "linear_attn.A_log"};
  const auto add = [&](const char* key, std::int64_t n) {
    g.keys.emplace_back(arch + key, static_cast<std::uint32_t>(n));
  };
  add(".ssm.conv_kernel", c.taps);
  add(".ssm.state_size", c.delta.key_width);
  add(".ssm.group_count", c.delta.keys);
  add(".ssm.time_step_rank", c.delta.values);
  add(".ssm.inner_size", c.delta.value_columns());
  add(".full_attention_interval", interval);
  if (!c.by_heads) add_sections(g.keys, c, arch);
  if (c.experts_too) moe::add_gguf_experts(g.keys, c, arch);
  return g;
}

Json config_of_gguf(const GgufKeyReader& keys) {
  const bool next = keys.architecture() == "qwen3next", experts = next || keys.architecture() == "qwen35moe";
  const char* const type = next ? "qwen3_next" : experts ? "qwen3_5_moe_text" : "qwen3_5_text";
  Json config = decoder::gguf_config(keys, type, true);
  // Leaves out layers that guess further tokens, which are the last ones.
  config["num_hidden_layers"] =
      keys.whole("block_count") -
      static_cast<std::int64_t>(std::clamp(keys.real_or("nextn_predict_layers", 0), 0.0, 1e9));
  const std::int64_t values = keys.whole("ssm.time_step_rank"), columns = keys.whole("ssm.inner_size");
  if (columns % values != 0) keys.refuse("ssm.inner_size is no multiple of ssm.time_step_rank");
  config["linear_conv_kernel_dim"] = keys.whole("ssm.conv_kernel");
  config["linear_key_head_dim"] = keys.whole("ssm.state_size");
  config["linear_value_head_dim"] = columns / values;
  config["linear_num_key_heads"] = keys.whole("ssm.group_count");
  config["linear_num_value_heads"] = values;
  config["full_attention_interval"] = keys.whole_or("full_attention_interval", 4);
  if (!experts) return config;
  if (next) {
    config["norm_topk_prob"] = true;
    config["decoder_sparse_step"] = 1;
    config["mlp_only_layers"] = Json::array();
  }
  config["num_experts"] = keys.whole("expert_count");
  config["num_experts_per_tok"] = keys.whole("expert_used_count");
  config["moe_intermediate_size"] = keys.whole("expert_feed_forward_length");
  config["shared_expert_intermediate_size"] = keys.whole("expert_shared_feed_forward_length");
  return config;
}

}  // namespace ft::qwen3_next
