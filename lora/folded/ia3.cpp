// IA3 (Liu et al., "Few-Shot Parameter-Efficient Fine-Tuning is Better and Cheaper than In-Context Learning",
// 2022), as PEFT computes it: a vector multiplies a Linear's output, bias included, or, in
// feedforward_modules, its input. The vector's shape tells which: (out, 1) or (1, in).
#include "lora/folded/folding.h"
#include "lora/kinds.h"

namespace ft::lora {
namespace {

constexpr const char* kVector = "ia3_l";

bool scales_output(const FoldedLinear& l) { return l.shape(kVector) == std::vector<std::int64_t>{l.out, 1}; }

void check_ia3(const FoldedLinear& l) {
  if (!scales_output(l) && l.shape(kVector) != std::vector<std::int64_t>{1, l.in})
    l.refuse(kVector, str("is ", shape_text(l.shape(kVector)), ", and needs ", shape_text({{l.out, 1}}),
                          " or, in feedforward_modules, ", shape_text({{1, l.in}})));
}

void change_by_ia3(Ops&, const FoldedLinear& l, Tensor w) {
  const std::vector<float> by = l.values(kVector);
  const bool rows = scales_output(l);
  for (std::int64_t o = 0; o < l.out; ++o)
    for (std::int64_t i = 0; i < l.in; ++i)
      w.as<float>()[o * l.in + i] *= by[static_cast<std::size_t>(rows ? o : i)];
}

void change_bias_by_ia3(const FoldedLinear& l, std::vector<float>& bias) {
  if (!scales_output(l)) return;
  const std::vector<float> by = l.values(kVector);
  for (std::size_t o = 0; o < bias.size(); ++o) bias[o] *= by[o];
}

constexpr Folding kIa3Folding{.check = check_ia3, .change = change_by_ia3, .change_bias = change_bias_by_ia3};
constexpr PeftKey kIa3Keys[] = {{"exclude_modules", "exclude_modules"}, {"fan_in_fan_out", nullptr, "false"},
                                {"feedforward_modules", nullptr, "[]"}, {"init_ia3_weights", nullptr, "true"},
                                {"modules_to_save", "modules_to_save"}, {"target_modules", "target_modules"}};

}  // namespace

constexpr AdapterKind kinds::kIa3{
    .name = "ia3", .peft_type = "IA3", .title = "IA3", .rank = 1, .keys = kIa3Keys, .folding = &kIa3Folding};

}  // namespace ft::lora
