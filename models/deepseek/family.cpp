#include "models/deepseek/family.h"

#include <cmath>

#include "models/deepseek/config.h"
#include "models/moe/parts.h"

namespace ft::deepseek {
namespace {

// Epsilon of the norms inside latent attention; rms_norm_eps does not apply to them.
constexpr float kInnerEps = 1e-6f;

SelfAttention make_attention(const Config& c, std::int64_t layer, DType dtype) {
  const std::string at = decoder::layer_prefix(layer) + "self_attn.";
  const LatentHeads& h = c.latent->heads;
  const std::int64_t C = c.hidden_size, rank = c.latent->rank, query_rank = c.latent->query_rank;
  LatentProjections p;
  if (query_rank > 0) {
    p.q_a_proj = make_linear(at + "q_a_proj", C, query_rank, c.qkv_bias, dtype);
    p.q_norm = make_rms_norm(at + "q_a_layernorm", query_rank, kInnerEps, dtype);
    p.q_proj = make_linear(at + "q_b_proj", query_rank, h.count * h.key(), false, dtype);
  } else {
    p.q_proj = make_linear(at + "q_proj", C, h.count * h.key(), false, dtype);
  }
  p.kv_a_proj = make_linear(at + "kv_a_proj_with_mqa", C, rank + h.rotated, c.qkv_bias, dtype);
  p.kv_norm = make_rms_norm(at + "kv_a_layernorm", rank, kInnerEps, dtype);
  p.kv_b_proj = make_linear(at + "kv_b_proj", rank, h.count * (h.plain + h.value), false, dtype);
  p.heads = h;
  p.neighbours = c.latent->neighbours;

  SelfAttention a;
  a.latent = std::move(p);
  a.o_proj = make_linear(at + "o_proj", h.count * h.value, C, c.o_bias, dtype);
  a.heads = {h.count, h.count, h.width()};
  a.scale = static_cast<float>(c.rope.score_factor() / std::sqrt(static_cast<double>(h.key())));
  a.dropout = {c.attention_dropout};
  a.layer = static_cast<std::size_t>(layer);
  return a;
}

MadeModel make(const std::string& config_json, DType dtype) {
  const Config c = read_config(config_json);
  CausalLm::Parts p = decoder::make_parts(c, dtype);
  if (c.latent)
    for (std::int64_t i = 0; i < c.num_hidden_layers; ++i)
      p.blocks[static_cast<std::size_t>(i)].attention = make_attention(c, i, dtype);
  moe::add_experts(p, c, dtype);
  MadeModel made = moe::make_model(std::move(p), c);
  for (std::int64_t i = 0; i < c.guessing_layers; ++i)
    made.info.stored.others.push_back(decoder::layer_prefix(c.num_hidden_layers + i));
  if (c.guessing_layers > 0) made.info.note = "the layers that guess further tokens are left out";
  return made;
}

}  // namespace

const Family kFamily{.make = make, .gguf = make_gguf, .from_gguf = config_of_gguf};

}  // namespace ft::deepseek
