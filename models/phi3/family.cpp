#include "models/phi3/family.h"

#include <nlohmann/json.hpp>

#include "models/decoder/gguf.h"
#include "models/decoder/parts.h"

namespace ft::phi3 {
namespace {

struct Config : decoder::Config {
  float resid_pdrop = 0;  // embd_pdrop is not applied by transformers
};

Config read_config(const std::string& config_json) {
  const JsonObject j = JsonObject::read(config_json);
  Config c{decoder::read_config(j, {.max_position = 4096,
                                    .padding = 32000,
                                    .eps = 1e-5,
                                    .rope = {.parts = true, .original_max_position = 4096}})};
  c.resid_pdrop = decoder::read_dropout(j, "resid_pdrop", 0);
  if (j.has("sliding_window")) c.windows.assign(c.windows.size(), j.positive("sliding_window"));
  return c;
}

MadeModel make(const std::string& config_json, DType dtype) {
  const Config c = read_config(config_json);
  const std::int64_t C = c.hidden_size, F = c.intermediate_size;
  CausalLm::Parts p = decoder::make_parts(c, dtype);
  for (std::int64_t i = 0; i < c.num_hidden_layers; ++i) {
    DecoderBlock& b = p.blocks[static_cast<std::size_t>(i)];
    const std::string at = decoder::layer_prefix(i);
    b.attention.q_proj =
        make_linear(at + "self_attn.qkv_proj", C, c.query_width() + 2 * c.key_width(), false, dtype);
    b.attention.k_proj = Linear{};
    b.attention.v_proj = Linear{};
    b.mlp.gate_proj = make_linear(at + "mlp.gate_up_proj", C, 2 * F, false, dtype);
    b.mlp.up_proj.reset();
    b.attended.dropout = b.fed.dropout = {c.resid_pdrop};
  }
  return decoder::make_model(std::move(p), c);
}

constexpr std::array kOfLayers = {GgufName{"self_attn.qkv_proj", "attn_qkv"},
                                  GgufName{"mlp.gate_up_proj", "ffn_up"}};
constexpr std::array kBlocks = {GgufBlocks{"model.layers.", "blk.", kOfLayers, decoder::kGgufOfLayers}};

}  // namespace

GgufModel make_gguf(const std::string& config_json) {
  const Config c = read_config(config_json);
  GgufModel g{.architecture = "phi3",
              .vocab_size = c.vocab_size,
              .keys = decoder::gguf_keys(c, "phi3", config_json),
              .names = {decoder::kGgufModules, kBlocks},
              .rope_factors = decoder::gguf_rope_factors(c.rope),
              .ignored_window = decoder::gguf_ignored_window(c)};
  const auto whole = [](std::int64_t n) { return static_cast<std::uint32_t>(n); };
  g.keys.emplace_back("phi3.rope.scaling.original_context_length",
                      whole(static_cast<std::int64_t>(c.rope.original_max_position)));
  g.keys.emplace_back("phi3.attention.sliding_window", whole(c.windows[0]));
  return g;
}

Json config_of_gguf(const GgufKeyReader& keys) {
  Json config = decoder::gguf_config(keys, "phi3", true);
  if (keys.has("rope.scaling.original_context_length"))
    config["original_max_position_embeddings"] = keys.whole("rope.scaling.original_context_length");
  if (keys.has("attention.sliding_window") && keys.real("attention.sliding_window") > 0)
    config["sliding_window"] = keys.whole("attention.sliding_window");
  return config;
}

const Family kFamily{.make = make, .gguf = make_gguf, .from_gguf = config_of_gguf};

}  // namespace ft::phi3
