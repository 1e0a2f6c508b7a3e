#include "models/opt/family.h"

#include <cmath>

#include "models/decoder/parts.h"

namespace ft::opt {
namespace {

struct Config : decoder::Config {
  std::int64_t word_embed_proj_dim = 0;
  bool norm_before = true, last_norm = true, biases = true, affine = true;
  float dropout = 0;
};

void read_sizes(Config& c, const JsonObject& j) {
  c.model_type = j.text("model_type");
  c.vocab_size = j.integer_or("vocab_size", 50272, 1, decoder::kMaxSize);
  c.hidden_size = j.integer_or("hidden_size", 768, 1, decoder::kMaxSize);
  c.intermediate_size = j.integer_or("ffn_dim", 3072, 1, decoder::kMaxSize);
  c.num_hidden_layers = j.integer_or("num_hidden_layers", 12, 1, decoder::kMaxLayers);
  c.num_attention_heads = j.integer_or("num_attention_heads", 12, 1, decoder::kMaxSize);
  if (c.hidden_size % c.num_attention_heads != 0)
    j.refuse("num_attention_heads", str("a divisor of hidden_size (", c.hidden_size, ")"));
  c.num_key_value_heads = c.num_attention_heads;
  c.head_dim = c.hidden_size / c.num_attention_heads;
  c.max_position_embeddings = j.integer_or("max_position_embeddings", 2048, 1, decoder::kMaxSize);
  decoder::read_padding(c, j, 1);
  c.word_embed_proj_dim = j.integer_or("word_embed_proj_dim", c.hidden_size, 1, decoder::kMaxSize);
}

Config read_config(const std::string& config_json) {
  const JsonObject j = JsonObject::read(config_json);
  Config c;
  read_sizes(c, j);
  c.hidden_act = decoder::read_activation(j, "activation_function", "relu");
  c.initializer_range = static_cast<float>(j.positive_number_or("init_std", 0.02));
  c.tie_word_embeddings = j.boolean_or("tie_word_embeddings", true);
  c.biases = j.boolean_or("enable_bias", true);
  c.affine = j.boolean_or("layer_norm_elementwise_affine", true);
  c.norm_before = j.boolean_or("do_layer_norm_before", true);
  c.last_norm = c.norm_before && !j.boolean_or("_remove_final_layer_norm", false);
  c.attention_dropout = decoder::read_dropout(j, "attention_dropout", 0);
  c.dropout = decoder::read_dropout(j, "dropout", 0.1);
  if (j.number_or("layerdrop", 0) != 0) j.refuse("layerdrop", "0: ft drops no layers");
  return c;
}

Norm norm(const Config& c, const std::string& module, DType dtype) {
  LayerNorm n = make_layer_norm(module, c.hidden_size, 1e-5f, dtype);
  n.affine = c.affine;
  return n;
}

Residual residual(const Config& c, const std::string& norm_name, const std::string& linear, DType dtype) {
  Residual r{.after_sum = !c.norm_before, .dropout = {c.dropout}, .name = linear + ".residual"};
  (c.norm_before ? r.before : r.after) = norm(c, norm_name, dtype);
  return r;
}

DecoderBlock make_block(const Config& c, std::int64_t layer, DType dtype) {
  const std::string at = str("model.decoder.layers.", layer, ".");
  const std::int64_t C = c.hidden_size, F = c.intermediate_size;
  const auto linear = [&](const char* name, std::int64_t in, std::int64_t out) {
    return make_linear(at + name, in, out, c.biases, dtype);
  };
  DecoderBlock b;
  b.attended = residual(c, at + "self_attn_layer_norm", at + "self_attn.out_proj", dtype);
  b.fed = residual(c, at + "final_layer_norm", at + "fc2", dtype);
  SelfAttention& a = b.attention;
  a.q_proj = linear("self_attn.q_proj", C, C);
  a.k_proj = linear("self_attn.k_proj", C, C);
  a.v_proj = linear("self_attn.v_proj", C, C);
  a.o_proj = linear("self_attn.out_proj", C, C);
  a.heads = {c.num_attention_heads, c.num_attention_heads, c.head_dim};
  a.scale = 1 / std::sqrt(static_cast<float>(c.head_dim));
  a.dropout = {c.attention_dropout};
  a.rotation = Rotation::none;
  a.layer = static_cast<std::size_t>(layer);
  b.mlp.gate_proj = linear("fc1", C, F);
  b.mlp.down_proj = linear("fc2", F, C);
  b.mlp.activation = c.hidden_act;
  return b;
}

MadeModel make(const std::string& config_json, DType dtype) {
  constexpr std::int64_t kOffset = 2;  // rows before position 0 in the table of positions
  const Config c = read_config(config_json);
  const std::int64_t C = c.hidden_size, W = c.word_embed_proj_dim, P = c.max_position_embeddings;
  CausalLm::Parts p{.embedding = {.weight = {.name = "model.decoder.embed_tokens.weight",
                                             .shape = {c.vocab_size, W},
                                             .dtype = dtype},
                                  .padding = c.padding,
                                  .positions = Parameter{.name = "model.decoder.embed_positions.weight",
                                                         .shape = {P + kOffset, C},
                                                         .dtype = dtype}},
                    .positions = {.table = PositionEncoding::Table{P, kOffset}},
                    .stack = "model.decoder.layers",
                    .tied = c.tie_word_embeddings,
                    .heads = c.num_attention_heads};
  for (std::int64_t i = 0; i < c.num_hidden_layers; ++i) p.blocks.push_back(make_block(c, i, dtype));
  if (c.last_norm) p.head.norm = norm(c, "model.decoder.final_layer_norm", dtype);
  if (W != C) {
    p.embedding.project = make_linear("model.decoder.project_in", W, C, false, dtype);
    p.head.narrow = make_linear("model.decoder.project_out", C, W, false, dtype);
  }
  p.head.lm_head = make_linear("lm_head", W, c.vocab_size, false, dtype);
  return decoder::make_model(std::move(p), c);
}

}  // namespace

GgufModel make_gguf(const std::string& config_json) {
  throw UserError(Exit::input, config_json + ": GGUF's readers know no OPT models");
}

const Family kFamily{.make = make, .gguf = make_gguf};

}  // namespace ft::opt
