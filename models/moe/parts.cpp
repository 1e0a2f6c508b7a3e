#include "models/moe/parts.h"

namespace ft::moe {
namespace {

// Names of the modules in the files. In transformers 5, and so in adapters, the router is always mlp.gate,
// and the experts have two matrices, mlp.experts.gate_up_proj and mlp.experts.down_proj.
struct Names {
  const char *block, *gate, *up, *down;
};
constexpr Names kMixtral{"block_sparse_moe.", "w1", "w3", "w2"};
constexpr Names kOthers{"mlp.", "gate_proj", "up_proj", "down_proj"};
const Names& names_of(const Config& c) { return c.model_type == "mixtral" ? kMixtral : kOthers; }

// Returns the stacked names, for files that store the experts as transformers 5 has them in memory.
std::vector<StoredStack> stacks_of(const Config& c) {
  const Names& names = names_of(c);
  const std::string own = str(".", names.block, "experts.%.");
  std::vector<StoredStack> stacks{
      {".mlp.experts.gate_up_proj", {own + names.gate + ".weight", own + names.up + ".weight"}},
      {".mlp.experts.down_proj", {own + names.down + ".weight"}}};
  if (names.block != std::string_view("mlp."))
    stacks.push_back({".mlp.gate.weight", {str(".", names.block, "gate.weight")}});
  return stacks;
}

Moe make_moe(const Config& c, std::int64_t layer, DType dtype) {
  const Names& names = names_of(c);
  const std::int64_t C = c.hidden_size, F = c.expert_width;
  const std::string at = decoder::layer_prefix(layer), block = at + names.block;
  Moe m;
  m.name = at + "mlp";
  m.gate = c.wide_routers ? make_wide_linear(block + "gate", C, c.experts)
                          : make_linear(block + "gate", C, c.experts, false, dtype);
  m.gate.name = at + "mlp.gate";
  for (std::int64_t e = 0; e < c.experts; ++e) {
    const std::string own = str(block, "experts.", e, ".");
    m.experts.push_back({.gate_proj = make_linear(own + names.gate, C, F, false, dtype),
                         .up_proj = make_linear(own + names.up, C, F, false, dtype),
                         .down_proj = make_linear(own + names.down, F, C, false, dtype)});
  }
  m.choices = c.choices;
  m.rule = c.rule;
  if (c.corrected)
    m.correction = Parameter{.name = at + "mlp.gate.e_score_correction_bias",
                             .shape = {c.experts},
                             .decays = false,
                             .constant = true,
                             .wide = true,
                             .initial = Initial::zeros};
  m.activation = c.hidden_act;
  m.keeps_names = c.model_type != "qwen2_moe" && c.model_type != "qwen3_5_moe_text";
  if (c.shared_width == 0) return m;
  SharedExpert& shared = m.shared.emplace();
  const std::string own = at + (c.shared_gated ? "mlp.shared_expert" : "mlp.shared_experts");
  shared.mlp.gate_proj = make_linear(own + ".gate_proj", C, c.shared_width, c.mlp_bias, dtype);
  shared.mlp.up_proj = make_linear(own + ".up_proj", C, c.shared_width, c.mlp_bias, dtype);
  shared.mlp.down_proj = make_linear(own + ".down_proj", c.shared_width, C, c.mlp_bias, dtype);
  shared.mlp.activation = c.hidden_act;
  if (c.shared_gated) shared.gate = make_linear(own + "_gate", C, 1, false, dtype);
  return m;
}

}  // namespace

void add_experts(CausalLm::Parts& p, const Config& c, DType dtype) {
  std::int64_t layers = 0;
  for (std::int64_t i = 0; i < c.num_hidden_layers; ++i) {
    if (!c.sparse[static_cast<std::size_t>(i)]) continue;
    DecoderBlock& b = p.blocks[static_cast<std::size_t>(i)];
    b.mlp = Mlp{};
    b.moe = make_moe(c, i, dtype);
    b.moe->layer = layers++;
  }
  p.balance = {layers, c.experts, c.choices, layers > 0 ? c.balance : 0};
}

MadeModel make_model(CausalLm::Parts p, const Config& c) {
  const bool router_loss = p.balance.coefficient != 0, routers = p.balance.layers > 0;
  MadeModel made = decoder::make_model(std::move(p), c);
  if (routers) made.info.never_quantized = {"mlp.gate"};  // not a linear in transformers 5
  made.info.stored.stacks = stacks_of(c);
  made.info.router_loss = router_loss;
  return made;
}

}  // namespace ft::moe
