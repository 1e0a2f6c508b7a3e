#include "models/decoder/parts.h"

#include <cmath>

namespace ft::decoder {

std::string layer_prefix(std::int64_t layer) { return "model.layers." + std::to_string(layer) + "."; }

Norm make_norm(const Config& c, const std::string& module, std::int64_t width, DType dtype) {
  return make_rms_norm(module, width, c.rms_norm_eps, dtype, c.norm_offset);
}

SelfAttention make_attention(const Config& c, std::int64_t layer, DType dtype) {
  const std::string at = layer_prefix(layer) + "self_attn.";
  const std::int64_t C = c.hidden_size, D = c.head_dim;
  SelfAttention a;
  a.q_proj = make_linear(at + "q_proj", C, c.query_width(), c.qkv_bias, dtype);
  a.k_proj = make_linear(at + "k_proj", C, c.key_width(), c.qkv_bias, dtype);
  a.v_proj = make_linear(at + "v_proj", C, c.key_width(), c.qkv_bias, dtype);
  a.o_proj = make_linear(at + "o_proj", c.query_width(), C, c.o_bias, dtype);
  if (c.qk_norm) {
    a.q_norm = make_norm(c, at + "q_norm", D, dtype);
    a.k_norm = make_norm(c, at + "k_norm", D, dtype);
  }
  a.heads = {c.num_attention_heads, c.num_key_value_heads, D};
  a.scale = 1 / std::sqrt(static_cast<float>(D));
  a.dropout = {c.attention_dropout};
  a.window = c.windows[static_cast<std::size_t>(layer)];
  a.layer = static_cast<std::size_t>(layer);
  return a;
}

DecoderBlock make_block(const Config& c, std::int64_t layer, DType dtype) {
  const std::string at = layer_prefix(layer);
  const std::int64_t C = c.hidden_size, F = c.intermediate_size;
  DecoderBlock b;
  b.attended.before = make_norm(c, at + "input_layernorm", C, dtype);
  b.attended.name = at + "self_attn.residual";
  b.fed.before = make_norm(c, at + "post_attention_layernorm", C, dtype);
  b.fed.name = at + "mlp.residual";
  b.attention = make_attention(c, layer, dtype);
  b.mlp.gate_proj = make_linear(at + "mlp.gate_proj", C, F, c.mlp_bias, dtype);
  b.mlp.up_proj = make_linear(at + "mlp.up_proj", C, F, c.mlp_bias, dtype);
  b.mlp.down_proj = make_linear(at + "mlp.down_proj", F, C, c.mlp_bias, dtype);
  b.mlp.activation = c.hidden_act;
  return b;
}

PositionEncoding make_positions(const Rope& rope) {
  const bool turns = rope.type == Rope::Type::longrope && rope.short_factors != rope.long_factors;
  return {.rotary = make_rotary(rope),
          .turns_at = turns ? static_cast<std::int64_t>(rope.original_max_position) : 0};
}

CausalLm::Parts make_parts(const Config& c, DType dtype) {
  const std::int64_t V = c.vocab_size, C = c.hidden_size;
  CausalLm::Parts p{
      .embedding = {.weight = {.name = "model.embed_tokens.weight", .shape = {V, C}, .dtype = dtype},
                    .padding = c.padding},
      .positions = make_positions(c.rope),
      .stack = "model.layers",
      .tied = c.tie_word_embeddings,
      .heads = c.num_attention_heads};
  for (std::int64_t i = 0; i < c.num_hidden_layers; ++i) p.blocks.push_back(make_block(c, i, dtype));
  p.head.norm = make_norm(c, "model.norm", C, dtype);
  p.head.lm_head = make_linear("lm_head", C, V, false, dtype);
  return p;
}

MadeModel make_model(CausalLm::Parts parts, const Config& c) {
  StoredNames stored{.prefix = parts.stack.substr(0, parts.stack.find('.') + 1),
                     .head = parts.head.lm_head.name + ".weight",
                     .skip = {".rotary_emb.inv_freq"}};
  if (c.tie_word_embeddings) stored.skip.push_back(stored.head);  // a copy of the table, or ignored
  ModelInfo info{.vocab_size = c.vocab_size,
                 .initializer_range = c.initializer_range,
                 .embedding = parts.embedding.weight.name,
                 .head = parts.head.lm_head.name,
                 .stored = std::move(stored),
                 .positions = parts.positions.table ? parts.positions.table->positions : 0,
                 .tied_head = c.tie_word_embeddings,
                 .norm_offset = c.norm_offset};
  return {std::make_unique<CausalLm>(std::move(parts)), std::move(info)};
}

}  // namespace ft::decoder
