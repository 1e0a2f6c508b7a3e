#include "models/gemma4/family.h"

#include <array>
#include <cmath>
#include <string_view>

#include "models/decoder/parts.h"
#include "models/gemma/config.h"
#include "models/gemma4/config.h"

namespace ft::gemma4 {
namespace {

// Leaves scores unscaled, because queries and keys are normed.
void finish_attention(SelfAttention& a, const Config& c, std::int64_t layer) {
  a.scale = 1;
  a.rotation = c.full(layer) ? Rotation::usual : Rotation::local;
  a.v_norm = {.width = a.heads.width, .eps = c.rms_norm_eps};
  if (c.values_are_keys && c.full(layer)) {
    a.values_are_keys = true;
    a.v_proj = {};
  }
  if (!c.borrows(layer)) return;
  a.layer = static_cast<std::size_t>(c.lender_of(layer));
  a.k_proj = {};
  a.v_proj = {};
  a.k_norm = std::nullopt;
  a.v_norm = std::nullopt;
}

// Numbers the layers that lend keys and values, in order.
void arrange_loans(std::vector<DecoderBlock>& blocks, const Config& c) {
  std::vector<std::int64_t> lenders;
  for (std::int64_t i = c.num_hidden_layers - c.borrowing; i < c.num_hidden_layers; ++i)
    lenders.push_back(c.lender_of(i));
  std::ranges::sort(lenders);
  lenders.erase(std::ranges::unique(lenders).begin(), lenders.end());
  const auto number = [&](std::int64_t layer) {
    return static_cast<std::size_t>(std::ranges::find(lenders, layer) - lenders.begin());
  };
  for (const std::int64_t i : lenders) blocks[static_cast<std::size_t>(i)].attention.lends = number(i);
  for (std::int64_t i = c.num_hidden_layers - c.borrowing; i < c.num_hidden_layers; ++i)
    blocks[static_cast<std::size_t>(i)].attention.borrows = number(c.lender_of(i));
}

Moe make_moe(const Config& c, std::int64_t layer, DType dtype) {
  const std::int64_t C = c.hidden_size, F = c.expert_width;
  const std::string at = decoder::layer_prefix(layer);
  Moe m;
  m.name = at.substr(0, at.size() - 1);
  m.gate = make_linear(at + "router.proj", C, c.experts, false, dtype);
  m.gate_is_linear = true;
  m.scales = {
      .norm = {.weight = {.name = at + "router.scale", .shape = {C}, .dtype = dtype}, .eps = c.rms_norm_eps},
      .experts = {.name = at + "router.per_expert_scale", .shape = {c.experts}}};
  for (std::int64_t e = 0; e < c.experts; ++e) {
    const std::string own = str(at, "experts.", e, ".");
    m.experts.push_back({.gate_proj = make_linear(own + "gate_proj", C, F, false, dtype),
                         .up_proj = make_linear(own + "up_proj", C, F, false, dtype),
                         .down_proj = make_linear(own + "down_proj", F, C, false, dtype)});
  }
  m.choices = c.choices;
  m.activation = c.hidden_act;
  m.layer = layer;
  m.keeps_names = false;
  return m;
}

void add_experts(DecoderBlock& b, const Config& c, std::int64_t layer, DType dtype) {
  const std::string at = decoder::layer_prefix(layer);
  const auto norm = [&](const char* name) { return decoder::make_norm(c, at + name, c.hidden_size, dtype); };
  b.mlp_and_experts = MlpAndExperts{.mlp = std::move(b.mlp),
                                    .moe = make_moe(c, layer, dtype),
                                    .mlp_before = std::move(*b.fed.before),
                                    .mlp_after = norm("post_feedforward_layernorm_1"),
                                    .moe_before = norm("pre_feedforward_layernorm_2"),
                                    .moe_after = norm("post_feedforward_layernorm_2")};
  b.mlp = {};
  b.fed.before = std::nullopt;
}

void add_per_layer_input(DecoderBlock& b, const Config& c, std::int64_t layer, DType dtype) {
  const std::string at = decoder::layer_prefix(layer);
  const std::int64_t C = c.hidden_size;
  b.per_layer =
      PerLayerInput{.gate = make_linear(at + "per_layer_input_gate", C, c.per_layer, false, dtype),
                    .projection = make_linear(at + "per_layer_projection", c.per_layer, C, false, dtype),
                    .activation = c.hidden_act,
                    .layer = layer};
  b.mixed.after = decoder::make_norm(c, at + "post_per_layer_input_norm", C, dtype);
  b.mixed.name = at + "per_layer_input.residual";
}

DecoderBlock make_block(const Config& c, std::int64_t layer, DType dtype) {
  const std::string at = decoder::layer_prefix(layer);
  const std::int64_t C = c.hidden_size;
  DecoderBlock b = decoder::make_block(c.of_layer(layer), layer, dtype);
  b.attended.after = std::move(b.fed.before);  // post_attention_layernorm
  b.fed.before = decoder::make_norm(c, at + "pre_feedforward_layernorm", C, dtype);
  b.fed.after = decoder::make_norm(c, at + "post_feedforward_layernorm", C, dtype);
  finish_attention(b.attention, c, layer);
  if (c.experts > 0) add_experts(b, c, layer, dtype);
  if (c.per_layer > 0) add_per_layer_input(b, c, layer, dtype);
  b.factor = Parameter{.name = at + "layer_scalar", .shape = {1}, .decays = false, .constant = true};
  return b;
}

PerLayerInputs make_inputs(const Config& c, DType dtype) {
  const std::int64_t columns = c.num_hidden_layers * c.per_layer;
  PerLayerInputs p;
  p.table.weight = {
      .name = "model.embed_tokens_per_layer.weight", .shape = {c.vocab_size, columns}, .dtype = dtype};
  p.table.scale = gemma::embedding_scale(c.per_layer, dtype);
  p.table.padding = c.padding;
  p.projection = make_linear("model.per_layer_model_projection", c.hidden_size, columns, false, dtype);
  p.norm = decoder::make_norm(c, "model.per_layer_projection_norm", c.per_layer, dtype);
  return p;
}

// Describes files: the text model's names inside a larger model, experts in one tensor, and keys and values
// that files hold also for borrowing layers.
void describe_files(StoredNames& stored, const Config& c) {
  stored.nested = "language_model.";
  stored.others = {"model.vision_tower.", "model.audio_tower.", "model.embed_vision.", "model.embed_audio."};
  stored.stacks = {{".experts.gate_up_proj", {".experts.%.gate_proj.weight", ".experts.%.up_proj.weight"}},
                   {".experts.down_proj", {".experts.%.down_proj.weight"}}};
  for (std::int64_t i = c.num_hidden_layers - c.borrowing; i < c.num_hidden_layers; ++i)
    for (const char* unused :
         {"k_proj.weight", "k_proj.bias", "v_proj.weight", "v_proj.bias", "k_norm.weight"})
      stored.skip.push_back(str(".layers.", i, ".self_attn.", unused));
}

MadeModel make(const std::string& config_json, DType dtype) {
  const Config c = read_config(config_json);
  CausalLm::Parts p = decoder::make_parts(c, dtype);
  p.embedding.scale = gemma::embedding_scale(c.hidden_size, dtype);
  p.head.cap = c.logit_cap;
  p.placeholders = c.placeholders;
  p.positions = {.rotary = make_rotary(c.full_rope), .local = make_rotary(c.rope)};
  for (std::int64_t i = 0; i < c.num_hidden_layers; ++i)
    p.blocks[static_cast<std::size_t>(i)] = make_block(c, i, dtype);
  arrange_loans(p.blocks, c);
  if (c.per_layer > 0) p.per_layer = make_inputs(c, dtype);
  MadeModel made = decoder::make_model(std::move(p), c);
  if (c.per_layer > 0) made.info.other_table = "model.embed_tokens_per_layer";
  describe_files(made.info.stored, c);
  made.info.stacks_experts = true;  // transformers reads no other files
  if (c.nested) {
    made.info.peft_nested = "language_model.";
    made.info.note = "the towers for images and sound are left out: ft computes with the text model";
  }
  return made;
}

// PEFT's default targets of the complete model; it has none for the text model alone.
constexpr std::array<std::string_view, 2> kTargets = {"q_proj", "v_proj"};

}  // namespace

const Family kFamily{.make = make, .gguf = make_gguf, .from_gguf = config_of_gguf};
const Family kNested{.make = make, .gguf = make_gguf, .lora_targets = kTargets};

}  // namespace ft::gemma4
