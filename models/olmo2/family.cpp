#include "models/olmo2/family.h"

#include <nlohmann/json.hpp>

#include "models/decoder/gguf.h"
#include "models/decoder/parts.h"

namespace ft::olmo2 {
namespace {

using decoder::Config;

Config read_config(const std::string& config_json) {
  const JsonObject j = JsonObject::read(config_json);
  Config c = decoder::read_config(j, {.padding = 1, .eps = 1e-5});
  c.qkv_bias = c.o_bias = j.boolean_or("attention_bias", false);
  return c;
}

MadeModel make(const std::string& config_json, DType dtype) {
  const Config c = read_config(config_json);
  CausalLm::Parts p = decoder::make_parts(c, dtype);
  for (std::int64_t i = 0; i < c.num_hidden_layers; ++i) {
    DecoderBlock& b = p.blocks[static_cast<std::size_t>(i)];
    const std::string at = decoder::layer_prefix(i);
    b.attended.before.reset();
    b.attended.after = std::move(b.fed.before);  // post_attention_layernorm
    b.fed.before.reset();
    b.fed.after = decoder::make_norm(c, at + "post_feedforward_layernorm", c.hidden_size, dtype);
    b.attention.q_norm = decoder::make_norm(c, at + "self_attn.q_norm", c.query_width(), dtype);
    b.attention.k_norm = decoder::make_norm(c, at + "self_attn.k_norm", c.key_width(), dtype);
  }
  return decoder::make_model(std::move(p), c);
}

constexpr std::array kOfLayers = {GgufName{"post_attention_layernorm", "post_attention_norm"},
                                  GgufName{"post_feedforward_layernorm", "post_ffw_norm"}};
constexpr std::array kBlocks = {GgufBlocks{"model.layers.", "blk.", kOfLayers, decoder::kGgufOfLayers}};

}  // namespace

GgufModel make_gguf(const std::string& config_json) {
  const Config c = read_config(config_json);
  return {.architecture = "olmo2",
          .vocab_size = c.vocab_size,
          .keys = decoder::gguf_keys(c, "olmo2", config_json),
          .names = {decoder::kGgufModules, kBlocks},
          .rope_factors = decoder::gguf_rope_factors(c.rope)};
}

Json config_of_gguf(const GgufKeyReader& keys) { return decoder::gguf_config(keys, "olmo2"); }

const Family kFamily{.make = make, .gguf = make_gguf, .from_gguf = config_of_gguf};

}  // namespace ft::olmo2
