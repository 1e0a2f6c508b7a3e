#include "models/gemma/family.h"

#include <cmath>

#include "models/decoder/parts.h"
#include "models/gemma/config.h"

namespace ft::gemma {
namespace {

MadeModel make(const std::string& config_json, DType dtype) {
  const Config c = read_config(config_json);
  const std::int64_t C = c.hidden_size;
  CausalLm::Parts p = decoder::make_parts(c, dtype);
  p.embedding.scale = embedding_scale(C, dtype);
  p.head.cap = c.logit_cap;
  if (c.local_rope) p.positions.local = make_rotary(*c.local_rope);
  for (std::int64_t i = 0; i < c.num_hidden_layers; ++i) {
    DecoderBlock& b = p.blocks[static_cast<std::size_t>(i)];
    const std::string at = decoder::layer_prefix(i);
    b.attended.after = std::move(b.fed.before);  // post_attention_layernorm
    b.fed.before = decoder::make_norm(c, at + "pre_feedforward_layernorm", C, dtype);
    b.fed.after = decoder::make_norm(c, at + "post_feedforward_layernorm", C, dtype);
    b.attention.scale = 1 / std::sqrt(c.query_pre_attn_scalar);
    b.attention.cap = c.score_cap;
    if (c.local_rope && c.windows[static_cast<std::size_t>(i)] > 0) b.attention.rotation = Rotation::local;
  }
  return decoder::make_model(std::move(p), c);
}

}  // namespace

const Family kFamily{.make = make, .gguf = make_gguf, .from_gguf = config_of_gguf};

}  // namespace ft::gemma
