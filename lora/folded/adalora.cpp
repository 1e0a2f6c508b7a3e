// AdaLoRA (Zhang et al., "Adaptive Budget Allocation for Parameter-Efficient Fine-Tuning", 2023), as PEFT
// computes it: W + alpha / (init_r + 1e-5) B (E * A) with A (n, in), E (n, 1), B (out, n). The n <= init_r
// are the ranks that the training left to the Linear, none at all if n is 0.
#include "engine/ops/ops.h"
#include "lora/adapter.h"
#include "lora/folded/folding.h"
#include "lora/kinds.h"

namespace ft::lora {
namespace {

void check_adalora(const FoldedLinear& l) {
  const std::vector<std::int64_t>& e = l.shape("lora_E");
  if (e.size() != 2 || e[0] > l.rank)
    l.refuse("lora_E", str("is ", shape_text(e), ", and init_r of adapter_config.json allows at most ",
                           shape_text({{l.rank, 1}})));
  l.expect("lora_E", {e[0], 1});
  l.expect("lora_A", {e[0], l.in});
  l.expect("lora_B", {l.out, e[0]});
}

void change_by_adalora(Ops& ops, const FoldedLinear& l, Tensor w) {
  FoldedValues a = l.matrix("lora_A"), b = l.matrix("lora_B");
  const std::vector<float> e = l.values("lora_E");
  if (e.empty()) return;
  for (std::size_t i = 0; i < a.values.size(); ++i) a.values[i] *= e[i / static_cast<std::size_t>(l.in)];
  const float ranks = static_cast<float>(l.rank);  // l.scale is alpha / init_r
  add_product(ops, w, a.tensor(), b.tensor(), l.scale * ranks / (ranks + 1e-5f), false);
}

constexpr Folding kAdaLoraFolding{.check = check_adalora, .change = change_by_adalora};
constexpr PeftKey kAdaLoraKeys[] = {{"beta1", nullptr, "0"},
                                    {"beta2", nullptr, "0"},
                                    {"bias", "bias"},
                                    {"deltaT", nullptr, "1"},
                                    {"exclude_modules", "exclude_modules"},
                                    {"fan_in_fan_out", nullptr, "false"},
                                    {"init_lora_weights", nullptr, "true"},
                                    {"init_r", "r"},
                                    {"layers_pattern", "layers_pattern"},
                                    {"layers_to_transform", "layers_to_transform"},
                                    {"lora_alpha", "lora_alpha"},
                                    {"lora_dropout", "lora_dropout"},
                                    {"megatron_core", nullptr, "null"},
                                    {"modules_to_save", "modules_to_save"},
                                    {"orth_reg_weight", nullptr, "0"},
                                    {"qalora_group_size", nullptr, "16"},
                                    {"r", nullptr, "8"},
                                    {"rank_pattern", nullptr, "{}"},
                                    {"target_modules", "target_modules"},
                                    {"target_r", nullptr, "8"},
                                    {"tfinal", nullptr, "0"},
                                    {"tinit", nullptr, "0"},
                                    {"total_step", nullptr, "1"}};

}  // namespace

constexpr AdapterKind kinds::kAdaLora{.name = "adalora",
                                      .peft_type = "ADALORA",
                                      .title = "AdaLoRA",
                                      .rank = 12,
                                      .keys = kAdaLoraKeys,
                                      .folding = &kAdaLoraFolding};

}  // namespace ft::lora
