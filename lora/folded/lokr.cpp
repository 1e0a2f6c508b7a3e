// LoKr (Yeh et al., "Navigating Text-To-Image Customization: From LyCORIS Fine-Tuning to Model Evaluation",
// 2024), as PEFT computes it on Linears: W plus s times the Kronecker product of W1 (l, m) and W2 (k, n),
// with l k = out and m n = in. Either is stored completely or as a product with the inner dimension r; s =
// alpha / r.
#include <utility>

#include "lora/folded/folding.h"
#include "lora/kinds.h"

namespace ft::lora {
namespace {

// Returns the shape of a factor. Throws UserError unless its file has the matrix or its two parts.
std::pair<std::int64_t, std::int64_t> factor_shape(const FoldedLinear& l, const std::string& factor) {
  const auto matrix = [&](const std::string& tensor) {
    const std::vector<std::int64_t>& shape = l.shape(tensor);
    if (shape.size() != 2 || shape[0] < 1 || shape[1] < 1)
      l.refuse(tensor, str("is ", shape_text(shape), ", not a matrix with values"));
    return std::pair(shape[0], shape[1]);
  };
  if (l.has(factor)) return matrix(factor);
  const std::int64_t rows = matrix(factor + "_a").first, columns = matrix(factor + "_b").second;
  l.expect(factor + "_a", {rows, l.rank});
  l.expect(factor + "_b", {l.rank, columns});
  return {rows, columns};
}

void check_lokr(const FoldedLinear& l) {
  const auto [rows1, columns1] = factor_shape(l, "lokr_w1");
  const auto [rows2, columns2] = factor_shape(l, "lokr_w2");
  const auto multiplies = [](std::int64_t a, std::int64_t b, std::int64_t to) {
    return to % a == 0 && to / a == b;
  };
  if (!multiplies(rows1, rows2, l.out) || !multiplies(columns1, columns2, l.in))
    l.refuse(l.has("lokr_w1") ? "lokr_w1" : "lokr_w1_a",
             str("belongs to a factor (", rows1, ", ", columns1, "), which with the other one, (", rows2,
                 ", ", columns2, "), does not make the weight (", l.out, ", ", l.in, ")"));
}

FoldedValues factor(Ops& ops, const FoldedLinear& l, const std::string& name) {
  return l.has(name) ? l.matrix(name) : l.product(ops, name + "_a", name + "_b");
}

void change_by_lokr(Ops& ops, const FoldedLinear& l, Tensor w) {
  const FoldedValues first = factor(ops, l, "lokr_w1"), second = factor(ops, l, "lokr_w2");
  const std::int64_t k = second.shape[0], m = first.shape[1], n = second.shape[1];
  for (std::int64_t o = 0; o < l.out; ++o)
    for (std::int64_t i = 0; i < l.in; ++i)
      w.as<float>()[o * l.in + i] += l.scale * (first.values[static_cast<std::size_t>(o / k * m + i / n)] *
                                                second.values[static_cast<std::size_t>(o % k * n + i % n)]);
}

constexpr Folding kLoKrFolding{.check = check_lokr, .change = change_by_lokr};
constexpr PeftKey kLoKrKeys[] = {{"alpha", "lora_alpha"},
                                 {"alpha_pattern", "alpha_pattern"},
                                 {"decompose_both", nullptr, "false"},
                                 {"decompose_factor", nullptr, "-1"},
                                 {"exclude_modules", "exclude_modules"},
                                 {"init_weights", nullptr, "true"},
                                 {"layers_pattern", "layers_pattern"},
                                 {"layers_to_transform", "layers_to_transform"},
                                 {"module_dropout", nullptr, "0"},
                                 {"modules_to_save", "modules_to_save"},
                                 {"r", "r"},
                                 {"rank_dropout", nullptr, "0"},
                                 {"rank_dropout_scale", nullptr, "false"},
                                 {"rank_pattern", "rank_pattern"},
                                 {"target_modules", "target_modules"},
                                 {"use_effective_conv2d", nullptr, "false"}};

}  // namespace

constexpr AdapterKind kinds::kLoKr{.name = "lokr",
                                   .peft_type = "LOKR",
                                   .title = "LoKr",
                                   .rank = 8,
                                   .keys = kLoKrKeys,
                                   .inputs_first = false,
                                   .folding = &kLoKrFolding};

}  // namespace ft::lora
