// VeRA (Kopiczko et al., "VeRA: Vector-based Random Matrix Adaptation", 2024), as PEFT computes it: W +
// diag(b) B diag(d) A, where d (r) and b (out) are trained. All Linears share random projections, and each
// takes the first columns of A (r, most inputs) and the first rows of B (most outputs, r). If the file leaves
// them out (save_projection), they are drawn again from projection_prng_key, with torch's numbers.
#include <cmath>
#include <random>

#include "engine/ops/ops.h"
#include "lora/adapter.h"
#include "lora/folded/folding.h"
#include "lora/kinds.h"

namespace ft::lora {
namespace {

constexpr const char *kProjectionA = "base_model.vera_A", *kProjectionB = "base_model.vera_B";

bool stores_projections(const FoldedLinear& l) { return l.config().boolean_or("save_projection", true); }

void check_vera(const FoldedLinear& l) {
  l.expect("vera_lambda_d", {l.rank});
  l.expect("vera_lambda_b", {l.out});
  if (!stores_projections(l)) {
    l.config().integer_or("projection_prng_key", 0, 0);
    return;
  }
  const auto holds = [&](const char* tensor, std::size_t whole, std::int64_t least) {
    const std::vector<std::int64_t>& shape = l.shape(tensor);
    if (shape.size() != 2 || shape[whole] != l.rank || shape[1 - whole] < least)
      l.refuse(tensor, str("is ", shape_text(shape), ", and ", l.name, " needs at least ",
                           whole == 0 ? shape_text({{l.rank, least}}) : shape_text({{least, l.rank}})));
  };
  holds(kProjectionA, 0, l.in);
  holds(kProjectionB, 1, l.out);
}

// Draws a matrix as PEFT does with torch's generator of the CPU: uniform within sqrt(6 / columns).
FoldedValues drawn(std::mt19937& random, std::int64_t rows, std::int64_t columns) {
  const double bound = std::sqrt(3.0) * (std::sqrt(2.0) / std::sqrt(static_cast<double>(columns)));
  const auto low = static_cast<float>(-bound), range = static_cast<float>(bound) - low;
  FoldedValues y{{}, {rows, columns}};
  y.values.resize(static_cast<std::size_t>(rows * columns));
  for (float& v : y.values)  // a number of 24 bits; torch computes in double
    v = static_cast<float>(static_cast<double>(random() & 0xffffff) * 0x1p-24 * range + low);
  return y;
}

void change_by_vera(Ops& ops, const FoldedLinear& l, Tensor w) {
  FoldedValues a, b;
  if (stores_projections(l)) {
    a = l.matrix(kProjectionA);
    b = l.matrix(kProjectionB);
  } else {
    std::mt19937 random(static_cast<std::uint32_t>(l.config().integer_or("projection_prng_key", 0, 0)));
    a = drawn(random, l.rank, l.most_in());
    b = drawn(random, l.most_out(), l.rank);
  }
  const std::vector<float> d = l.values("vera_lambda_d"), scale = l.values("vera_lambda_b");
  const std::int64_t columns = a.shape[1];
  FoldedValues down{{}, {l.rank, l.in}}, up{{}, {l.out, l.rank}};
  for (std::int64_t k = 0; k < l.rank; ++k)
    for (std::int64_t i = 0; i < l.in; ++i)
      down.values.push_back(d[static_cast<std::size_t>(k)] *
                            a.values[static_cast<std::size_t>(k * columns + i)]);
  for (std::int64_t o = 0; o < l.out; ++o)
    for (std::int64_t k = 0; k < l.rank; ++k)
      up.values.push_back(scale[static_cast<std::size_t>(o)] *
                          b.values[static_cast<std::size_t>(o * l.rank + k)]);
  add_product(ops, w, down.tensor(), up.tensor(), 1, false);
}

constexpr Folding kVeraFolding{.check = check_vera, .change = change_by_vera};
constexpr PeftKey kVeraKeys[] = {{"bias", "bias"},
                                 {"d_initial", nullptr, "0.1"},
                                 {"exclude_modules", "exclude_modules"},
                                 {"fan_in_fan_out", nullptr, "false"},
                                 {"init_weights", nullptr, "true"},
                                 {"layers_pattern", "layers_pattern"},
                                 {"layers_to_transform", "layers_to_transform"},
                                 {"modules_to_save", "modules_to_save"},
                                 {"projection_prng_key", nullptr, "0"},
                                 {"r", "r"},
                                 {"save_projection", nullptr, "true"},
                                 {"target_modules", "target_modules"},
                                 {"vera_dropout", nullptr, "0"}};

}  // namespace

constexpr AdapterKind kinds::kVera{.name = "vera",
                                   .peft_type = "VERA",
                                   .title = "VeRA",
                                   .rank = 256,
                                   .keys = kVeraKeys,
                                   .lora_only = "vera_only",
                                   .folding = &kVeraFolding};

}  // namespace ft::lora
