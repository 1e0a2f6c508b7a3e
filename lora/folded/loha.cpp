// LoHa (Hyeon-Woo et al., "FedPara", 2022), as PEFT computes it on Linears: W + s (W1a W1b) * (W2a W2b),
// element by element, with W1a, W2a (out, r), W1b, W2b (r, in) and s = alpha / r.
#include "engine/ops/ops.h"
#include "lora/adapter.h"
#include "lora/folded/folding.h"
#include "lora/kinds.h"

namespace ft::lora {
namespace {

void check_loha(const FoldedLinear& l) {
  for (const char* a : {"hada_w1_a", "hada_w2_a"}) l.expect(a, {l.out, l.rank});
  for (const char* b : {"hada_w1_b", "hada_w2_b"}) l.expect(b, {l.rank, l.in});
}

void change_by_loha(Ops& ops, const FoldedLinear& l, Tensor w) {
  std::vector<float> first(static_cast<std::size_t>(w.numel())), second(first.size());
  const auto multiply = [&](std::vector<float>& y, const char* left, const char* right) {
    FoldedValues up = l.matrix(left), down = l.matrix(right);
    const Tensor to(reinterpret_cast<std::byte*>(y.data()), DType::f32, w.shape);
    add_product(ops, to, down.tensor(), up.tensor(), 1, false);
  };
  multiply(first, "hada_w1_a", "hada_w1_b");
  multiply(second, "hada_w2_a", "hada_w2_b");
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
