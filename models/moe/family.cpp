#include "models/moe/family.h"

#include "models/moe/parts.h"

namespace ft::moe {
namespace {

MadeModel make(const std::string& config_json, DType dtype) {
  const Config c = read_config(config_json);
  CausalLm::Parts p = decoder::make_parts(c, dtype);
  for (std::int64_t i = 0; i < c.num_hidden_layers && c.norms_whole_rows; ++i) {
    DecoderBlock& b = p.blocks[static_cast<std::size_t>(i)];
    const std::string at = decoder::layer_prefix(i) + "self_attn.";
    b.attention.q_norm = decoder::make_norm(c, at + "q_norm", c.query_width(), dtype);
    b.attention.k_norm = decoder::make_norm(c, at + "k_norm", c.key_width(), dtype);
  }
  add_experts(p, c, dtype);
  return make_model(std::move(p), c);
}

}  // namespace

const Family kFamily{.make = make, .gguf = make_gguf, .from_gguf = config_of_gguf};

}  // namespace ft::moe
