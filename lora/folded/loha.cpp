// LoHa (Hyeon-Woo et al., "FedPara", 2022), as PEFT computes it on Linears: W + s (W1a W1b) * (W2a W2b),
// element by element, with W1a, W2a (out, r), W1b, W2b (r, in) and s = alpha / r.
#include "lora/folded/folding.h"
#include "lora/kinds.h"

namespace ft::lora {
namespace {

void check_loha(const FoldedLinear& l) {
  for (const char* a : {"hada_w1_a", "hada_w2_a"}) l.expect(a, {l.out, l.rank});
  for (const char* b : {"hada_w1_b", "hada_w2_b"}) l.expect(b, {l.rank, l.in});
}

void change_by_loha(Ops& ops, const FoldedLinear& l, Tensor w) {
  const std::vector<float> first = l.product(ops, "hada_w1_a", "hada_w1_b").values,
                           second = l.product(ops, "hada_w2_a", "hada_w2_b").values;
  for (std::size_t i = 0; i < first.size(); ++i) w.as<float>()[i] += l.scale * (first[i] * second[i]);
}

constexpr Folding kLoHaFolding{.check = check_loha, .change = change_by_loha};
constexpr PeftKey kLoHaKeys[] = {{"alpha", "lora_alpha"},
                                 {"alpha_pattern", "alpha_pattern"},
                                 {"exclude_modules", "exclude_modules"},
                                 {"init_weights", nullptr, "true"},
                                 {"layers_pattern", "layers_pattern"},
                                 {"layers_to_transform", "layers_to_transform"},
                                 {"module_dropout", nullptr, "0"},
                                 {"modules_to_save", "modules_to_save"},
                                 {"r", "r"},
                                 {"rank_dropout", nullptr, "0"},
                                 {"rank_pattern", "rank_pattern"},
                                 {"target_modules", "target_modules"},
                                 {"use_effective_conv2d", nullptr, "false"}};

}  // namespace

constexpr AdapterKind kinds::kLoHa{.name = "loha",
                                   .peft_type = "LOHA",
                                   .title = "LoHa",
                                   .rank = 8,
                                   .keys = kLoHaKeys,
                                   .inputs_first = false,
                                   .folding = &kLoHaFolding};

}  // namespace ft::lora
