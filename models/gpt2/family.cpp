#include "models/gpt2/family.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "models/decoder/gguf.h"
#include "models/decoder/parts.h"

namespace ft::gpt2 {
namespace {

struct Config : decoder::Config {
  float embd_pdrop = 0, resid_pdrop = 0;
  bool scaled = true, scaled_by_layer = false;  // factors of the scores
};

void read_sizes(Config& c, const JsonObject& j) {
  c.model_type = j.text("model_type");
  c.vocab_size = j.integer_or("vocab_size", 50257, 1, decoder::kMaxSize);
  c.hidden_size = j.integer_or("n_embd", 768, 1, decoder::kMaxSize);
  c.intermediate_size = j.integer_or("n_inner", 4 * c.hidden_size, 1, 4 * decoder::kMaxSize);
  c.num_hidden_layers = j.integer_or("n_layer", 12, 1, decoder::kMaxLayers);
  c.num_attention_heads = j.integer_or("n_head", 12, 1, decoder::kMaxSize);
  if (c.hidden_size % c.num_attention_heads != 0)
    j.refuse("n_head", str("a divisor of n_embd (", c.hidden_size, ")"));
  c.num_key_value_heads = c.num_attention_heads;
  c.head_dim = c.hidden_size / c.num_attention_heads;
  c.max_position_embeddings = j.integer_or("n_positions", 1024, 1, decoder::kMaxSize);
}

Config read_config(const std::string& config_json) {
  const JsonObject j = JsonObject::read(config_json);
  Config c;
  read_sizes(c, j);
  c.hidden_act = decoder::read_activation(j, "activation_function", "gelu_new");
  c.rms_norm_eps = static_cast<float>(j.positive_number_or("layer_norm_epsilon", 1e-5));
  c.initializer_range = static_cast<float>(j.positive_number_or("initializer_range", 0.02));
  c.tie_word_embeddings = j.boolean_or("tie_word_embeddings", true);
  c.attention_dropout = decoder::read_dropout(j, "attn_pdrop", 0.1);
  c.embd_pdrop = decoder::read_dropout(j, "embd_pdrop", 0.1);
  c.resid_pdrop = decoder::read_dropout(j, "resid_pdrop", 0.1);
  c.scaled = j.boolean_or("scale_attn_weights", true);
  c.scaled_by_layer = j.boolean_or("scale_attn_by_inverse_layer_idx", false);
  if (j.boolean_or("add_cross_attention", false))
    j.refuse("add_cross_attention", "false: ft has no encoder for it");
  return c;
}

// Narrows the initial values of linears that write to the residual stream, as transformers does.
Linear narrowed(const Config& c, Linear l) {
  static_cast<DenseWeight&>(*l.weight).parameter.deviation =
      c.initializer_range / std::sqrt(2.0 * static_cast<double>(c.num_hidden_layers));
  return l;
}

DecoderBlock make_block(const Config& c, std::int64_t layer, DType dtype) {
  const std::string at = str("transformer.h.", layer, ".");
  const std::int64_t C = c.hidden_size, F = c.intermediate_size;
  DecoderBlock b;
  b.attended = {.before = make_layer_norm(at + "ln_1", C, c.rms_norm_eps, dtype),
                .dropout = {c.resid_pdrop},
                .name = at + "attn.residual"};
  b.fed = {.before = make_layer_norm(at + "ln_2", C, c.rms_norm_eps, dtype),
           .dropout = {c.resid_pdrop},
           .name = at + "mlp.residual"};
  SelfAttention& a = b.attention;
  a.q_proj = make_inputs_first_linear(at + "attn.c_attn", C, 3 * C, dtype);
  a.o_proj = narrowed(c, make_inputs_first_linear(at + "attn.c_proj", C, C, dtype));
  a.heads = {c.num_attention_heads, c.num_attention_heads, c.head_dim};
  a.scale = c.scaled ? 1 / std::sqrt(static_cast<float>(c.head_dim)) : 1;
  if (c.scaled_by_layer) a.scale /= static_cast<float>(layer + 1);
  a.dropout = {c.attention_dropout};
  a.rotation = Rotation::none;
  a.layer = static_cast<std::size_t>(layer);
  b.mlp.gate_proj = make_inputs_first_linear(at + "mlp.c_fc", C, F, dtype);
  b.mlp.down_proj = narrowed(c, make_inputs_first_linear(at + "mlp.c_proj", F, C, dtype));
  b.mlp.activation = c.hidden_act;
  return b;
}

constexpr std::array kModules = {GgufName{"transformer.wte", "token_embd"},
                                 GgufName{"transformer.wpe", "position_embd"},
                                 GgufName{"transformer.ln_f", "output_norm"}, GgufName{"lm_head", "output"}};
constexpr std::array kOfLayers = {GgufName{"ln_1", "attn_norm"},          GgufName{"attn.c_attn", "attn_qkv"},
                                  GgufName{"attn.c_proj", "attn_output"}, GgufName{"ln_2", "ffn_norm"},
                                  GgufName{"mlp.c_fc", "ffn_up"},         GgufName{"mlp.c_proj", "ffn_down"}};
constexpr std::array kBlocks = {GgufBlocks{"transformer.h.", "blk.", kOfLayers}};

MadeModel make(const std::string& config_json, DType dtype) {
  const Config c = read_config(config_json);
  const std::int64_t V = c.vocab_size, C = c.hidden_size, P = c.max_position_embeddings;
  CausalLm::Parts p{
      .embedding = {.weight = {.name = "transformer.wte.weight", .shape = {V, C}, .dtype = dtype},
                    .positions = Parameter{.name = "transformer.wpe.weight", .shape = {P, C}, .dtype = dtype},
                    .dropout = {c.embd_pdrop}},
      .positions = {.table = PositionEncoding::Table{P, 0}},
      .stack = "transformer.h",
      .tied = c.tie_word_embeddings,
      .heads = c.num_attention_heads};
  for (std::int64_t i = 0; i < c.num_hidden_layers; ++i) p.blocks.push_back(make_block(c, i, dtype));
  p.head.norm = make_layer_norm("transformer.ln_f", C, c.rms_norm_eps, dtype);
  p.head.lm_head = make_linear("lm_head", C, V, false, dtype);
  MadeModel made = decoder::make_model(std::move(p), c);
  for (const char* mask : {".attn.bias", ".attn.masked_bias"})
    made.info.stored.skip.emplace_back(mask);  // buffers of old files
  return made;
}

}  // namespace

GgufModel make_gguf(const std::string& config_json) {
  const Config c = read_config(config_json);
  if (c.hidden_act != Activation::gelu_tanh || !c.scaled || c.scaled_by_layer)
    throw UserError(Exit::input,
                    config_json +
                        ": in GGUF's gpt2 models activation_function is gelu_new, and scores are "
                        "divided by the root of a head's width only");
  return {.architecture = "gpt2",
          .vocab_size = c.vocab_size,
          .keys = decoder::gguf_sizes(c, "gpt2"),
          .names = {kModules, kBlocks}};
}

Json config_of_gguf(const GgufKeyReader& keys) {
  return {{"model_type", "gpt2"},
          {"vocab_size", keys.vocab_size()},
          {"n_positions", keys.whole("context_length")},
          {"n_embd", keys.whole("embedding_length")},
          {"n_inner", keys.whole("feed_forward_length")},
          {"n_layer", keys.whole("block_count")},
          {"n_head", keys.whole("attention.head_count")},
          {"layer_norm_epsilon", keys.real_or("attention.layer_norm_epsilon", 1e-5)},
          {"activation_function", "gelu_new"},
          {"tie_word_embeddings", !keys.has_tensor("output.weight")}};
}

const Family kFamily{.make = make, .gguf = make_gguf, .from_gguf = config_of_gguf};

}  // namespace ft::gpt2
