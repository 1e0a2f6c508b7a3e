// GGUF's architecture gemma4. Its keys are those of the layers with full attention; layers with a window have
// keys of their own (..._swa).
#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/core/error.h"
#include "models/decoder/gguf.h"
#include "models/gemma4/config.h"
#include "models/gemma4/family.h"

namespace ft::gemma4 {
namespace {

constexpr std::array kModules = {GgufName{"model.embed_tokens", "token_embd"},
                                 GgufName{"model.norm", "output_norm"},
                                 GgufName{"lm_head", "output"},
                                 GgufName{"model.embed_tokens_per_layer", "per_layer_token_embd"},
                                 GgufName{"model.per_layer_model_projection", "per_layer_model_proj"},
                                 GgufName{"model.per_layer_projection_norm", "per_layer_proj_norm"}};
constexpr std::array kOfLayers = {GgufName{"post_attention_layernorm", "post_attention_norm"},
                                  GgufName{"pre_feedforward_layernorm", "ffn_norm"},
                                  GgufName{"post_feedforward_layernorm", "post_ffw_norm"},
                                  GgufName{"layer_scalar", "layer_output_scale.weight"},
                                  GgufName{"per_layer_input_gate", "inp_gate"},
                                  GgufName{"per_layer_projection", "proj"},
                                  GgufName{"post_per_layer_input_norm", "post_norm"}};
constexpr std::array kOfExperts = {GgufName{"pre_feedforward_layernorm_2", "pre_ffw_norm_2"},
                                   GgufName{"post_feedforward_layernorm_1", "post_ffw_norm_1"},
                                   GgufName{"post_feedforward_layernorm_2", "post_ffw_norm_2"},
                                   GgufName{"router.proj", "ffn_gate_inp"},
                                   GgufName{"router.scale", "ffn_gate_inp.scale"},
                                   GgufName{"router.per_expert_scale", "ffn_down_exps.scale"},
                                   GgufName{"experts.%.gate_proj", "ffn_gate_exps"},
                                   GgufName{"experts.%.up_proj", "ffn_up_exps"},
                                   GgufName{"experts.%.down_proj", "ffn_down_exps"}};
constexpr std::array kBlocks = {
    GgufBlocks{"model.layers.", "blk.", kOfLayers, decoder::kGgufOfLayers, kOfExperts}};

constexpr std::array<std::string_view, 1> kNoAdapters = {".per_layer_model_projection"};

// Divisor of the frequencies of pairs that do not rotate.
constexpr float kStill = 1e30f;

// Returns a layer's number, or a list if layers differ.
GgufValue by_layer(const Config& c, const auto& of) {
  std::vector<std::int32_t> all;
  for (std::int64_t i = 0; i < c.num_hidden_layers; ++i) all.push_back(static_cast<std::int32_t>(of(i)));
  if (std::ranges::count(all, all[0]) == std::ssize(all)) return static_cast<std::uint32_t>(all[0]);
  return all;
}

// Returns the settings of layers with full attention.
decoder::Config full_layers(const Config& c) {
  decoder::Config full = c;
  full.head_dim = c.full_head_dim;
  full.num_key_value_heads = c.full_key_value_heads;
  full.rope = c.full_rope;
  full.rope.type = Rope::Type::normal;  // the divisors are a tensor
  return full;
}

void require_usual(const Config& c, const std::string& config_json) {
  const auto refuse = [&](const char* what) {
    throw UserError(Exit::input, str(config_json, ": in GGUF's gemma4 models ", what));
  };
  if (c.qkv_bias) refuse("attention_bias is false");
  if (c.rope.type != Rope::Type::normal) refuse("layers with a window have default positions");
  if (std::ranges::count(c.windows, 0) == std::ssize(c.windows)) refuse("some layers have a window");
  const std::int64_t own = c.num_hidden_layers - c.borrowing;
  for (std::int64_t i = own; i < c.num_hidden_layers; ++i)
    if (c.lender_of(i) != own - (c.full(i) ? 1 : 2))
      refuse("the last two layers with keys of their own have a window and full attention, in this order");
}

std::vector<float> divisors(const Rope& r) {
  std::vector<float> all(static_cast<std::size_t>(r.head_dim / 2), kStill);
  const bool part = r.type == Rope::Type::proportional;
  std::fill_n(all.begin(), part ? r.turning : r.head_dim / 2, static_cast<float>(part ? r.factor : 1));
  return all;
}

void require_each_layer(const GgufKeyReader& keys, const char* key, const std::vector<std::int64_t>& list,
                        std::int64_t layers) {
  if (std::ssize(list) != layers) keys.refuse(str(keys.own(key), " has not an entry for each layer"));
}

// Reads a number for each layer.
std::vector<std::int64_t> numbers(const GgufKeyReader& keys, const char* key, std::int64_t layers) {
  std::vector<std::int64_t> all = keys.whole_list(key);
  if (all.size() == 1) all.resize(static_cast<std::size_t>(layers), all[0]);
  require_each_layer(keys, key, all, layers);
  return all;
}

}  // namespace

GgufModel make_gguf(const std::string& config_json) {
  const Config c = read_config(config_json);
  require_usual(c, config_json);
  const std::string arch = "gemma4";
  GgufModel g{.architecture = arch,
              .vocab_size = c.vocab_size,
              .keys = decoder::gguf_keys(full_layers(c), arch, config_json, Activation::gelu_tanh),
              .names = {kModules, kBlocks},
              .rope_factors = {{"rope_freqs.weight", divisors(c.full_rope)}},
              .no_adapters = kNoAdapters};
  const auto set = [&](const char* key, GgufValue value) {
    decoder::set_gguf_key(g.keys, arch + key, std::move(value));
  };
  const auto whole = [&](const char* key, std::int64_t n) { set(key, static_cast<std::uint32_t>(n)); };
  set(".feed_forward_length", by_layer(c, [&](std::int64_t i) { return c.of_layer(i).intermediate_size; }));
  set(".attention.head_count_kv",
      by_layer(c, [&](std::int64_t i) { return c.of_layer(i).num_key_value_heads; }));
  std::vector<std::int32_t> windows;
  for (std::int64_t i = 0; i < c.num_hidden_layers; ++i) windows.push_back(c.full(i) ? 0 : 1);
  set(".attention.sliding_window_pattern", std::move(windows));
  whole(".attention.sliding_window", *std::ranges::max_element(c.windows));
  whole(".attention.shared_kv_layers", c.borrowing);
  whole(".attention.key_length_swa", c.head_dim);
  whole(".attention.value_length_swa", c.head_dim);
  whole(".rope.dimension_count_swa", c.rope.head_dim);
  set(".rope.freq_base_swa", static_cast<float>(c.rope.theta));
  whole(".embedding_length_per_layer_input", c.per_layer);
  set(".final_logit_softcapping", c.logit_cap);  // readers assume 30 if it is missing; 0: none
  if (c.experts == 0) return g;
  whole(".expert_count", c.experts);
  whole(".expert_used_count", c.choices);
  whole(".expert_feed_forward_length", c.expert_width);
  return g;
}

Json config_of_gguf(const GgufKeyReader& keys) {
  const std::int64_t layers = keys.whole("block_count"), full = keys.whole("attention.key_length");
  constexpr const char* kPattern = "attention.sliding_window_pattern";
  const std::vector<std::int64_t> windows = keys.number_list(kPattern);
  require_each_layer(keys, kPattern, windows, layers);
  const std::vector<std::int64_t> heads = numbers(keys, "attention.head_count_kv", layers),
                                  widths = numbers(keys, "feed_forward_length", layers);
  Json types = Json::array();
  std::int64_t full_heads = heads.back(), window_heads = heads.back();
  for (std::size_t i = 0; i < windows.size(); ++i) {
    types.push_back(windows[i] != 0 ? "sliding_attention" : "full_attention");
    (windows[i] != 0 ? window_heads : full_heads) = heads[i];
  }
  const GgufTensor* stored = keys.find_tensor("rope_freqs.weight");
  if (!stored || stored->elements() != full / 2)
    keys.refuse(str("rope_freqs.weight is missing, or not a number for each of ", full / 2, " pairs"));
  const std::vector<float> divisors = keys.read(*stored);
  const auto turning =
      std::ranges::find_if(divisors, [](float d) { return d >= kStill / 2; }) - divisors.begin();
  for (std::int64_t i = 0; i < full / 2; ++i)
    if (const float d = divisors[static_cast<std::size_t>(i)];
        i < turning ? d != divisors[0] : !(d >= kStill / 2))
      keys.refuse(
          "rope_freqs.weight is not one divisor for the first pairs and at least 5e29 for the others");
  const std::int64_t shared =
      static_cast<std::int64_t>(std::clamp(keys.real_or("attention.shared_kv_layers", 0), 0.0, 1e9));
  Json config = {
      {"model_type", "gemma4_text"},
      {"vocab_size", keys.vocab_size()},
      {"hidden_size", keys.whole("embedding_length")},
      {"intermediate_size", widths.front()},
      {"num_hidden_layers", layers},
      {"num_attention_heads", keys.whole("attention.head_count")},
      {"num_key_value_heads", window_heads},
      {"head_dim", keys.whole("attention.key_length_swa")},
      {"global_head_dim", full},
      {"hidden_activation", "gelu_pytorch_tanh"},
      {"max_position_embeddings", keys.whole("context_length")},
      {"rms_norm_eps", keys.real_or("attention.layer_norm_rms_epsilon", 1e-6)},
      {"tie_word_embeddings", !keys.has_tensor("output.weight")},
      {"pad_token_id", 0},
      {"layer_types", types},
      {"sliding_window", keys.whole("attention.sliding_window")},
      {"num_kv_shared_layers", shared},
      {"use_double_wide_mlp", widths.front() != widths.back()},
      {"hidden_size_per_layer_input",
       static_cast<std::int64_t>(std::clamp(keys.real_or("embedding_length_per_layer_input", 0), 0.0, 1e9))},
      {"vocab_size_per_layer_input", keys.vocab_size()},
      {"final_logit_softcapping", nullptr},
      {"rope_parameters",
       {{"full_attention",
         {{"rope_type", "proportional"},
          {"rope_theta", keys.real_or("rope.freq_base", 1e6)},
          {"partial_rotary_factor", 2 * static_cast<double>(turning) / static_cast<double>(full)},
          {"factor", turning > 0 ? divisors.front() : 1}}},
        {"sliding_attention",
         {{"rope_type", "default"}, {"rope_theta", keys.real_or("rope.freq_base_swa", 10000)}}}}}};
  if (const double cap = keys.real_or("final_logit_softcapping", 30); cap > 0)
    config["final_logit_softcapping"] = cap;
  // Layers with full attention that have no values take the keys for them.
  const auto first_full = std::ranges::find(windows, 0) - windows.begin();
  config["attention_k_eq_v"] = !keys.has_tensor(str("blk.", first_full, ".attn_v.weight"));
  if (config["attention_k_eq_v"] == true)
    config["num_global_key_value_heads"] = full_heads;
  else if (full_heads != window_heads)
    keys.refuse("layers with full attention have another number of keys");
  if (keys.real_or("expert_count", 0) == 0) return config;
  config["enable_moe_block"] = true;
  config["num_experts"] = keys.whole("expert_count");
  config["top_k_experts"] = keys.whole("expert_used_count");
  config["moe_intermediate_size"] = keys.whole("expert_feed_forward_length");
  return config;
}

}  // namespace ft::gemma4
