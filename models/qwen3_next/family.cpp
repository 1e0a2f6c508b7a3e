#include "models/qwen3_next/family.h"

#include "models/moe/parts.h"
#include "models/qwen3_next/config.h"

namespace ft::qwen3_next {
namespace {

DeltaNet make_delta_net(const Config& c, std::int64_t layer, DType dtype) {
  const std::string at = decoder::layer_prefix(layer) + "linear_attn.";
  const DeltaHeads& h = c.delta;
  const std::int64_t C = c.hidden_size, values = h.value_columns(), columns = 2 * h.key_columns() + values;
  const auto make = [&](const char* name, std::int64_t in, std::int64_t out) {
    return make_linear(at + name, in, out, false, dtype);
  };
  DeltaNet n;
  n.by_heads = c.by_heads;
  if (c.by_heads) {
    n.in_proj = make("in_proj_qkvz", C, columns + values);
    n.beta_proj = make("in_proj_ba", C, 2 * h.values);
  } else {
    n.in_proj = make("in_proj_qkv", C, columns);
    n.gate_proj = make("in_proj_z", C, values);
    n.beta_proj = make("in_proj_b", C, h.values);
    n.decay_proj = make("in_proj_a", C, h.values);
  }
  n.out_proj = make("out_proj", values, C);
  n.conv = {.name = at + "conv1d.weight", .shape = {columns, 1, c.taps}, .dtype = dtype};
  n.a_log = {.name = at + "A_log", .shape = {h.values}, .initial = Initial::log_rates};
  n.dt_bias = {.name = at + "dt_bias", .shape = {h.values}, .decays = false, .initial = Initial::ones};
  n.norm = make_rms_norm(at + "norm", h.value_width, c.rms_norm_eps, dtype);
  n.norm.weight.initial = Initial::ones;
  n.heads = h;
  n.layer = static_cast<std::size_t>(layer);
  return n;
}

// Gives a layer's attention its gate: q_proj makes queries and gates.
void add_gate(SelfAttention& a, const Config& c, DType dtype) {
  a.q_proj = make_linear(a.q_proj.name, c.hidden_size, 2 * c.query_width(), c.qkv_bias, dtype);
  a.gated = true;
}

MadeModel make(const std::string& config_json, DType dtype) {
  const Config c = read_config(config_json);
  CausalLm::Parts p = decoder::make_parts(c, dtype);
  for (std::int64_t i = 0; i < c.num_hidden_layers; ++i) {
    DecoderBlock& b = p.blocks[static_cast<std::size_t>(i)];
    if (c.recurrent[static_cast<std::size_t>(i)]) {
      b.attention = {};
      b.delta_net = make_delta_net(c, i, dtype);
    } else {
      add_gate(b.attention, c, dtype);
    }
  }
  if (c.experts_too) moe::add_experts(p, c, dtype);
  MadeModel made = c.experts_too ? moe::make_model(std::move(p), c) : decoder::make_model(std::move(p), c);
  made.info.stored.nested = "language_model.";
  made.info.stored.others = {"model.visual.", "mtp."};
  if (c.nested)
    made.info.note =
        "the vision tower and the heads that guess further tokens are left out: ft computes with the text "
        "model";
  return made;
}

}  // namespace

const Family kFamily{.make = make, .gguf = make_gguf, .from_gguf = config_of_gguf};

}  // namespace ft::qwen3_next
