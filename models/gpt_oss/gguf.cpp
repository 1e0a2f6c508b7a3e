// GGUF's architecture gpt-oss. The experts' matrices are transposed there, and gates and ups, which alternate
// in Hugging Face's files, are tensors of their own.
#include <nlohmann/json.hpp>

#include "engine/core/error.h"
#include "models/decoder/gguf.h"
#include "models/gpt_oss/config.h"
#include "models/gpt_oss/family.h"

namespace ft::gpt_oss {
namespace {

constexpr std::array kOfLayers = {GgufName{"post_attention_layernorm", "post_attention_norm"},
                                  GgufName{"self_attn.sinks", "attn_sinks.weight"},
                                  GgufName{"mlp.router", "ffn_gate_inp"}};
constexpr std::array kBlocks = {GgufBlocks{"model.layers.", "blk.", kOfLayers, decoder::kGgufOfLayers}};

// ft's own key: true if the bounds of YaRN's ramp are rounded, which they are not in released models.
constexpr const char* kRounded = "rope.scaling.yarn_truncate";

// Throws UserError (input) if a setting differs from the value that readers of GGUF assume.
void require_usual(const Config& c, const std::string& config_json) {
  const auto refuse = [&](const char* what) {
    throw UserError(Exit::input, str(config_json, ": in GGUF's gpt-oss models ", what));
  };
  if (c.limit != 7 || c.steepness != 1.702f) refuse("swiglu_limit is 7 and swiglu_alpha 1.702");
  if (!c.qkv_bias) refuse("attention_bias is true");
  for (std::size_t i = 0; i < c.windows.size(); ++i)
    if ((c.windows[i] > 0) != (i % 2 == 0)) refuse("every other layer has a window, from the first on");
}

std::vector<GgufPart> parts_of(const Config& c) {
  const std::int64_t E = c.experts, F = c.expert_width;
  const auto matrix = [&](std::string_view module, std::string_view gguf, GgufPart::Range r) {
    return GgufPart{
        .module = module, .gguf = gguf, .matrices = E, .ranges = {r}, .columns = true, .turned = true};
  };
  const auto biases = [&](std::string_view module, std::string_view gguf, GgufPart::Range r) {
    return GgufPart{.module = module,
                    .gguf = gguf,
                    .matrices = E,
                    .ranges = {r},
                    .columns = true,
                    .form = GgufPart::Form::vectors};
  };
  const GgufPart::Range gates{0, F, 2}, ups{1, F, 2}, all{0, c.hidden_size};
  return {matrix("mlp.experts.gate_up_proj", "ffn_gate_exps.weight", gates),
          matrix("mlp.experts.gate_up_proj", "ffn_up_exps.weight", ups),
          matrix("mlp.experts.down_proj", "ffn_down_exps.weight", all),
          biases("mlp.experts.gate_up_proj_bias", "ffn_gate_exps.bias", gates),
          biases("mlp.experts.gate_up_proj_bias", "ffn_up_exps.bias", ups),
          biases("mlp.experts.down_proj_bias", "ffn_down_exps.bias", all)};
}

}  // namespace

GgufModel make_gguf(const std::string& config_json) {
  const Config c = read_config(config_json);
  require_usual(c, config_json);
  const std::string arch = "gpt-oss";
  GgufModel g{.architecture = arch,
              .vocab_size = c.vocab_size,
              .keys = decoder::gguf_keys(c, arch, config_json),
              .names = {decoder::kGgufModules, kBlocks},
              .parts = parts_of(c)};
  const auto add = [&](const char* key, std::int64_t n) {
    g.keys.emplace_back(arch + key, static_cast<std::uint32_t>(n));
  };
  add(".attention.sliding_window", c.windows[0]);
  add(".expert_count", c.experts);
  add(".expert_used_count", c.choices);
  add(".expert_feed_forward_length", c.expert_width);
  if (c.rope.type != Rope::Type::yarn) return g;
  if (c.rope.truncate)
    g.keys.emplace_back(str(arch, ".", kRounded), true);
  else
    g.note =
        "readers of GGUF round the bounds of YaRN's ramp, which this model does not: logits differ a little";
  return g;
}

Json config_of_gguf(const GgufKeyReader& keys) {
  Json config = decoder::gguf_config(keys, "gpt_oss");
  config["attention_bias"] = true;
  config["intermediate_size"] = keys.whole("expert_feed_forward_length");
  config["num_local_experts"] = keys.whole("expert_count");
  config["num_experts_per_tok"] = keys.whole("expert_used_count");
  config["sliding_window"] = keys.whole("attention.sliding_window");
  config["swiglu_limit"] = 7.0;
  config["router_aux_loss_coef"] = 0.9;
  config["output_router_logits"] = false;
  if (config.contains("rope_scaling"))
    config["rope_scaling"]["truncate"] = keys.flag_or(kRounded, false);
  else
    config["rope_scaling"] = {{"rope_type", "default"}};
  return config;
}

}  // namespace ft::gpt_oss
