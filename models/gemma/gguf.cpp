// GGUF's architectures gemma2 and gemma3. Their norm weights include the added 1.
#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/core/error.h"
#include "models/decoder/gguf.h"
#include "models/gemma/config.h"
#include "models/gemma/family.h"

namespace ft::gemma {
namespace {

constexpr std::array kOfLayers = {GgufName{"post_attention_layernorm", "post_attention_norm"},
                                  GgufName{"pre_feedforward_layernorm", "ffn_norm"},
                                  GgufName{"post_feedforward_layernorm", "post_ffw_norm"}};
constexpr std::array kBlocks = {GgufBlocks{"model.layers.", "blk.", kOfLayers, decoder::kGgufOfLayers}};

// Returns query_pre_attn_scalar as readers of GGUF derive it: the width of a head, or in models of 27B
// parameters hidden_size / heads. Readers recognize the 27B models by the number of layers.
float scalar_of(bool three, std::int64_t layers, std::int64_t hidden, std::int64_t heads,
                std::int64_t head_dim) {
  const bool largest = layers == (three ? 62 : 46);
  return static_cast<float>(largest ? hidden / heads : head_dim);
}

// Throws UserError (input) if a setting differs from the value that readers of GGUF assume.
void require_usual(const Config& c, std::int64_t pattern, const std::string& config_json) {
  const auto refuse = [&](const char* what) {
    throw UserError(Exit::input, str(config_json, ": in GGUF's ", c.model_type, " models ", what));
  };
  if (c.query_pre_attn_scalar !=
      scalar_of(c.qk_norm, c.num_hidden_layers, c.hidden_size, c.num_attention_heads, c.head_dim))
    refuse("query_pre_attn_scalar is head_dim (of 27B hidden_size / num_attention_heads)");
  if (!c.qk_norm && (c.score_cap == 0 || c.logit_cap == 0))
    refuse("attn_logit_softcapping and final_logit_softcapping are above 0");
  for (std::size_t i = 0; i < c.windows.size(); ++i)
    if ((c.windows[i] == 0) != (static_cast<std::int64_t>(i + 1) % pattern == 0))
      refuse(pattern == 2 ? "every second layer is full" : "every sixth layer is full");
  if (c.local_rope && (c.local_rope->type != Rope::Type::normal || c.local_rope->theta != 10000))
    refuse("rope_local_base_freq is 10000");
}

}  // namespace

GgufModel make_gguf(const std::string& config_json) {
  const Config c = read_config(config_json);
  const bool three = c.qk_norm;
  require_usual(c, three ? 6 : 2, config_json);
  const std::string arch = three ? "gemma3" : "gemma2";
  GgufModel g{.architecture = arch,
              .vocab_size = c.vocab_size,
              .keys = decoder::gguf_keys(c, arch, config_json, Activation::gelu_tanh),
              .names = {decoder::kGgufModules, kBlocks},
              .rope_factors = decoder::gguf_rope_factors(c.rope),
              .norm_offset = c.norm_offset};
  g.keys.emplace_back(arch + ".attention.sliding_window", static_cast<std::uint32_t>(c.windows[0]));
  if (c.score_cap > 0) g.keys.emplace_back(arch + ".attn_logit_softcapping", c.score_cap);
  if (c.logit_cap > 0) g.keys.emplace_back(arch + ".final_logit_softcapping", c.logit_cap);
  return g;
}

Json config_of_gguf(const GgufKeyReader& keys) {
  const bool three = keys.architecture() == "gemma3";
  Json config = decoder::gguf_config(keys, three ? "gemma3_text" : "gemma2");
  config["hidden_activation"] = "gelu_pytorch_tanh";
  config.erase("hidden_act");
  config["query_pre_attn_scalar"] = scalar_of(three, config["num_hidden_layers"], config["hidden_size"],
                                              config["num_attention_heads"], config["head_dim"]);
  config["sliding_window"] = keys.whole_or("attention.sliding_window", 4096);
  if (!three) config["attn_logit_softcapping"] = keys.real_or("attn_logit_softcapping", 50);
  config["final_logit_softcapping"] = nullptr;
  if (!three || keys.has("final_logit_softcapping"))
    config["final_logit_softcapping"] = keys.real_or("final_logit_softcapping", 30);
  if (!three) return config;
  config["sliding_window_pattern"] = 6;
  config["rope_theta"] = keys.real_or("rope.freq_base", 1e6);
  config["rope_local_base_freq"] = keys.real_or("rope.freq_base_swa", 10000);
  return config;
}

}  // namespace ft::gemma
