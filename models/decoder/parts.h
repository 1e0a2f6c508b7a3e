// Parts of a decoder with LLaMA's names. A family takes them and changes the parts that differ.
#pragma once
#include "engine/model/causal_lm.h"
#include "models/decoder/config.h"
#include "models/family.h"

namespace ft::decoder {

// Returns the prefix of a layer's names, such as "model.layers.3.".
std::string layer_prefix(std::int64_t layer);

Norm make_norm(const Config&, const std::string& module, std::int64_t width, DType);
// Makes self_attn.{q,k,v,o}_proj, and norms of queries and keys over each head.
SelfAttention make_attention(const Config&, std::int64_t layer, DType);
// Makes a pre-norm block: input_layernorm, post_attention_layernorm; mlp.{gate,up,down}_proj.
DecoderBlock make_block(const Config&, std::int64_t layer, DType);
PositionEncoding make_positions(const Rope&);
// Makes model.embed_tokens, model.layers, model.norm, lm_head.
CausalLm::Parts make_parts(const Config&, DType);

MadeModel make_model(CausalLm::Parts, const Config&);

}  // namespace ft::decoder
