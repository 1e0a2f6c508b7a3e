#include "models/llama/block.h"

#include <cmath>

namespace ft::llama {

Block make_block(const Config& c, std::int64_t layer, DType dtype) {
  const std::string at = "model.layers." + std::to_string(layer) + ".";
  const std::int64_t C = c.hidden_size, F = c.intermediate_size, D = c.head_dim;
  const std::int64_t query = c.num_attention_heads * D, key_value = c.num_key_value_heads * D;
  Block b;
  b.input_norm = make_rms_norm(at + "input_layernorm", C, c.rms_norm_eps, dtype);
  b.post_norm = make_rms_norm(at + "post_attention_layernorm", C, c.rms_norm_eps, dtype);
  SelfAttention& a = b.attention;
  a.q_proj = make_linear(at + "self_attn.q_proj", C, query, c.qkv_bias, dtype);
  a.k_proj = make_linear(at + "self_attn.k_proj", C, key_value, c.qkv_bias, dtype);
  a.v_proj = make_linear(at + "self_attn.v_proj", C, key_value, c.qkv_bias, dtype);
  a.o_proj = make_linear(at + "self_attn.o_proj", query, C, c.o_bias, dtype);
  if (c.qk_norm) {
    a.q_norm = make_rms_norm(at + "self_attn.q_norm", D, c.rms_norm_eps, dtype);
    a.k_norm = make_rms_norm(at + "self_attn.k_norm", D, c.rms_norm_eps, dtype);
  }
  a.heads = {c.num_attention_heads, c.num_key_value_heads, D};
  a.scale = 1 / std::sqrt(static_cast<float>(D));
  a.window = c.windows[static_cast<std::size_t>(layer)];
  a.layer = static_cast<std::size_t>(layer);
  b.mlp.gate_proj = make_linear(at + "mlp.gate_proj", C, F, c.mlp_bias, dtype);
  b.mlp.up_proj = make_linear(at + "mlp.up_proj", C, F, c.mlp_bias, dtype);
  b.mlp.down_proj = make_linear(at + "mlp.down_proj", F, C, c.mlp_bias, dtype);
  b.mlp.activation = c.hidden_act;
  return b;
}

Block::Saved Block::forward(Ctx& c, Tensor y, Tensor x, const Side& side, Keep keep) const {
  const std::int64_t rows = x.rows(), C = x.cols();
  Saved s;
  s.input_statistics = input_norm.take_statistics(c.saved, rows);
  s.post_statistics = post_norm.take_statistics(c.saved, rows);
  s.h = c.save(rows, C);
  Scope scratch(c.scratch);
  Tensor n = c.temporary(rows, C);
  input_norm.forward(c, n, s.input_statistics, x);
  s.attention = attention.forward(c, s.h, n, x, side);
  if (!y) return s;
  post_norm.forward(c, n, s.post_statistics, s.h);
  s.mlp = mlp.forward(c, y, n, s.h, keep);
  return s;
}

void Block::backward(Ctx& c, Tensor d, Tensor x, const Saved& s, const Side& side, bool input_grad) const {
  Scope scratch(c.scratch);
  Tensor n = c.temporary(x.rows(), x.cols()), dn = c.temporary(x.rows(), x.cols());
  if (mlp.reads_input() || s.mlp.empty()) post_norm.forward(c, n, s.post_statistics, s.h);
  mlp.backward(c, dn, d, n, s.mlp);
  post_norm.backward(c, d, dn, s.h, s.post_statistics);  // d +=: the residual
  if (attention.reads_input()) input_norm.forward(c, n, s.input_statistics, x);
  const bool wanted = input_grad || input_norm.trains();
  attention.backward(c, wanted ? dn : Tensor{}, d, n, s.attention, side);
  if (wanted) input_norm.backward(c, input_grad ? d : Tensor{}, dn, x, s.input_statistics);
}

void Block::visit(Visitor& v) {
  input_norm.visit(v);
  attention.visit(v);
  post_norm.visit(v);
  mlp.visit(v);
}

}  // namespace ft::llama
