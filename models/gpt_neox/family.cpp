#include "models/gpt_neox/family.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "models/decoder/gguf.h"
#include "models/decoder/parts.h"

namespace ft::gpt_neox {
namespace {

struct Config : decoder::Config {
  bool parallel = true, attention_bias = true;
  float hidden_dropout = 0;
};

void read_sizes(Config& c, const JsonObject& j) {
  c.model_type = j.text("model_type");
  c.vocab_size = j.integer_or("vocab_size", 50432, 1, decoder::kMaxSize);
  c.hidden_size = j.integer_or("hidden_size", 6144, 1, decoder::kMaxSize);
  c.intermediate_size = j.integer_or("intermediate_size", 24576, 1, decoder::kMaxSize);
  c.num_hidden_layers = j.integer_or("num_hidden_layers", 44, 1, decoder::kMaxLayers);
  c.num_attention_heads = j.integer_or("num_attention_heads", 64, 1, decoder::kMaxSize);
  if (c.hidden_size % c.num_attention_heads != 0)
    j.refuse("num_attention_heads", str("a divisor of hidden_size (", c.hidden_size, ")"));
  c.num_key_value_heads = c.num_attention_heads;
  c.head_dim = c.hidden_size / c.num_attention_heads;
  c.max_position_embeddings = j.positive_or("max_position_embeddings", 2048);
}

Config read_config(const std::string& config_json) {
  const JsonObject j = JsonObject::read(config_json);
  Config c;
  read_sizes(c, j);
  c.hidden_act = decoder::read_activation(j, "hidden_act", "gelu");
  c.rms_norm_eps = static_cast<float>(j.positive_number_or("layer_norm_eps", 1e-5));
  c.initializer_range = static_cast<float>(j.positive_number_or("initializer_range", 0.02));
  c.tie_word_embeddings = j.boolean_or("tie_word_embeddings", false);
  c.attention_dropout = decoder::read_dropout(j, "attention_dropout", 0);
  c.hidden_dropout = decoder::read_dropout(j, "hidden_dropout", 0);
  c.parallel = j.boolean_or("use_parallel_residual", true);
  c.attention_bias = j.boolean_or("attention_bias", true);
  c.rope = read_rope(j, c.head_dim, c.max_position_embeddings,
                     {.part = 0.25, .parts = true, .theta_key = "rotary_emb_base", .part_key = "rotary_pct"});
  return c;
}

DecoderBlock make_block(const Config& c, std::int64_t layer, DType dtype) {
  const std::string at = str("gpt_neox.layers.", layer, ".");
  const std::int64_t C = c.hidden_size, F = c.intermediate_size;
  DecoderBlock b;
  b.parallel = c.parallel;
  b.attended = {.before = make_layer_norm(at + "input_layernorm", C, c.rms_norm_eps, dtype),
                .dropout = {c.hidden_dropout},
                .name = at + "attention.residual"};
  b.fed = {.before = make_layer_norm(at + "post_attention_layernorm", C, c.rms_norm_eps, dtype),
           .dropout = {c.hidden_dropout},
           .name = at + "mlp.residual"};
  SelfAttention& a = b.attention;
  a.q_proj = make_linear(at + "attention.query_key_value", C, 3 * C, c.attention_bias, dtype);
  a.by_heads = true;
  a.o_proj = make_linear(at + "attention.dense", C, C, c.attention_bias, dtype);
  a.heads = {c.num_attention_heads, c.num_attention_heads, c.head_dim};
  a.scale = 1 / std::sqrt(static_cast<float>(c.head_dim));
  a.dropout = {c.attention_dropout};
  a.layer = static_cast<std::size_t>(layer);
  b.mlp.gate_proj = make_linear(at + "mlp.dense_h_to_4h", C, F, true, dtype);
  b.mlp.down_proj = make_linear(at + "mlp.dense_4h_to_h", F, C, true, dtype);
  b.mlp.activation = c.hidden_act;
  return b;
}

constexpr std::array kModules = {GgufName{"gpt_neox.embed_in", "token_embd"},
                                 GgufName{"gpt_neox.final_layer_norm", "output_norm"},
                                 GgufName{"embed_out", "output"}};
constexpr std::array kOfLayers = {
    GgufName{"input_layernorm", "attn_norm"},   GgufName{"attention.query_key_value", "attn_qkv"},
    GgufName{"attention.dense", "attn_output"}, GgufName{"post_attention_layernorm", "ffn_norm"},
    GgufName{"mlp.dense_h_to_4h", "ffn_up"},    GgufName{"mlp.dense_4h_to_h", "ffn_down"}};
constexpr std::array kBlocks = {GgufBlocks{"gpt_neox.layers.", "blk.", kOfLayers}};

MadeModel make(const std::string& config_json, DType dtype) {
  const Config c = read_config(config_json);
  const std::int64_t V = c.vocab_size, C = c.hidden_size;
  CausalLm::Parts p{
      .embedding = {.weight = {.name = "gpt_neox.embed_in.weight", .shape = {V, C}, .dtype = dtype},
                    .dropout = {c.hidden_dropout}},
      .positions = decoder::make_positions(c.rope),
      .stack = "gpt_neox.layers",
      .tied = c.tie_word_embeddings,
      .heads = c.num_attention_heads};
  for (std::int64_t i = 0; i < c.num_hidden_layers; ++i) p.blocks.push_back(make_block(c, i, dtype));
  p.head.norm = make_layer_norm("gpt_neox.final_layer_norm", C, c.rms_norm_eps, dtype);
  p.head.lm_head = make_linear("embed_out", C, V, false, dtype);
  MadeModel made = decoder::make_model(std::move(p), c);
  for (const char* mask : {".attention.bias", ".attention.masked_bias"})
    made.info.stored.skip.emplace_back(mask);  // buffers of old files
  return made;
}

}  // namespace

GgufModel make_gguf(const std::string& config_json) {
  const Config c = read_config(config_json);
  if (c.hidden_act != Activation::gelu || c.rope.type != Rope::Type::normal || !c.attention_bias)
    throw UserError(
        Exit::input,
        config_json + ": in GGUF's gptneox models hidden_act is gelu, rope plain and attention_bias true");
  GgufModel g{.architecture = "gptneox",
              .vocab_size = c.vocab_size,
              .keys = decoder::gguf_sizes(c, "gptneox"),
              .names = {kModules, kBlocks},
              .tied_head = true,
              .permuted = {{.module = "attention.query_key_value",
                            .heads = c.num_attention_heads,
                            .order = GgufModel::Order::thirds,
                            .each = 3}}};
  g.keys.emplace_back("gptneox.rope.dimension_count", static_cast<std::uint32_t>(c.rope.head_dim));
  g.keys.emplace_back("gptneox.rope.freq_base", static_cast<float>(c.rope.theta));
  g.keys.emplace_back("gptneox.use_parallel_residual", c.parallel);
  return g;
}

Json config_of_gguf(const GgufKeyReader& keys) {
  const std::int64_t hidden = keys.whole("embedding_length"), heads = keys.whole("attention.head_count");
  const double width = static_cast<double>(hidden) / static_cast<double>(heads);
  return {{"model_type", "gpt_neox"},
          {"vocab_size", keys.vocab_size()},
          {"hidden_size", hidden},
          {"intermediate_size", keys.whole("feed_forward_length")},
          {"num_hidden_layers", keys.whole("block_count")},
          {"num_attention_heads", heads},
          {"max_position_embeddings", keys.whole("context_length")},
          {"rotary_pct", static_cast<double>(keys.whole("rope.dimension_count")) / width},
          {"rotary_emb_base", keys.real_or("rope.freq_base", 10000)},
          {"use_parallel_residual", keys.flag_or("use_parallel_residual", true)},
          {"layer_norm_eps", keys.real_or("attention.layer_norm_epsilon", 1e-5)},
          {"hidden_act", "gelu"},
          {"tie_word_embeddings", false}};
}

const Family kFamily{.make = make, .gguf = make_gguf, .from_gguf = config_of_gguf};

}  // namespace ft::gpt_neox
