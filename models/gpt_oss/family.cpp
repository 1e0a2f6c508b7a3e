#include "models/gpt_oss/family.h"

#include "models/decoder/parts.h"
#include "models/gpt_oss/config.h"

namespace ft::gpt_oss {
namespace {

std::unique_ptr<StackedExperts> make_stacks(const Config& c, const std::string& at, DType dtype) {
  const std::int64_t C = c.hidden_size, F = c.expert_width;
  auto stacks = std::make_unique<StackedExperts>(
      StackedExperts{.gate_up = ExpertStack(at + "gate_up_proj", c.experts, C, 2 * F, dtype),
                     .down = ExpertStack(at + "down_proj", c.experts, F, C, dtype),
                     .limit = c.limit,
                     .steepness = c.steepness});
  return stacks;
}

Moe make_moe(const Config& c, std::int64_t layer, DType dtype) {
  Moe m;
  m.name = decoder::layer_prefix(layer) + "mlp";
  m.gate = make_linear(m.name + ".router", c.hidden_size, c.experts, true, dtype);
  m.gate.bias->initial = Initial::normal;
  m.stacks = make_stacks(c, m.name + ".experts.", dtype);
  for (std::int64_t e = 0; e < c.experts; ++e)
    m.experts.push_back(
        {.gate_proj = m.stacks->gate_up.linear(e), .up_proj = {}, .down_proj = m.stacks->down.linear(e)});
  m.choices = c.choices;
  m.layer = layer;
  m.keeps_names = false;
  return m;
}

MadeModel make(const std::string& config_json, DType dtype) {
  const Config c = read_config(config_json);
  CausalLm::Parts p = decoder::make_parts(c, dtype);
  for (std::int64_t i = 0; i < c.num_hidden_layers; ++i) {
    DecoderBlock& b = p.blocks[static_cast<std::size_t>(i)];
    b.attention.sinks = Parameter{.name = decoder::layer_prefix(i) + "self_attn.sinks",
                                  .shape = {c.num_attention_heads},
                                  .dtype = dtype,
                                  .initial = Initial::normal};
    b.mlp = {};
    b.moe = make_moe(c, i, dtype);
  }
  p.balance = {c.num_hidden_layers, c.experts, c.choices, c.balance};
  const bool router_loss = c.balance != 0;
  MadeModel made = decoder::make_model(std::move(p), c);
  made.info.never_quantized = {"mlp.router"};  // not a linear in transformers
  made.info.router_loss = router_loss;
  made.info.mxfp4 = c.mxfp4;
  return made;
}

}  // namespace

const Family kFamily{.make = make, .gguf = make_gguf, .from_gguf = config_of_gguf};

}  // namespace ft::gpt_oss
