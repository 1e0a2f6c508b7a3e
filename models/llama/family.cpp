#include "models/llama/family.h"

#include "engine/nn/causal_lm.h"
#include "models/llama/block.h"

namespace ft::llama {
namespace {

using Llama = CausalLm<Block, Rotary>;

std::unique_ptr<Model> make_model(const Config& c, DType dtype) {
  const std::int64_t V = c.vocab_size, C = c.hidden_size;
  Llama::Parts p{.embedding = {{.name = "model.embed_tokens.weight", .shape = {V, C}, .dtype = dtype}},
                 .positions = make_rotary(c.rope),
                 .stack = "model.layers",
                 .tied = c.tie_word_embeddings,
                 .key_columns = c.num_key_value_heads * c.head_dim,
                 .heads = c.num_attention_heads};
  for (std::int64_t i = 0; i < c.num_hidden_layers; ++i) p.blocks.push_back(make_block(c, i, dtype));
  p.head.norm = make_rms_norm("model.norm", C, c.rms_norm_eps, dtype);
  p.head.lm_head = make_linear("lm_head", C, V, false, dtype);
  return std::make_unique<Llama>(std::move(p));
}

MadeModel make(const std::string& config_json, DType dtype) {
  const Config c = read_config(config_json);
  return {make_model(c, dtype), ModelInfo{.vocab_size = c.vocab_size,
                                          .initializer_range = c.initializer_range,
                                          .tied_head = c.tie_word_embeddings}};
}

}  // namespace

const Family kFamily{.make = make, .gguf = make_gguf};

}  // namespace ft::llama
