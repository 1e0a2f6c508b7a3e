#include "lora/dora.h"

#include <cmath>

#include "engine/layers/sum.h"

namespace ft::lora {

DoraAdapter::DoraAdapter(const std::string& module, std::int64_t in, std::int64_t out, std::int64_t rank,
                         float scale, float dropout, DType dtype)
    : LoraAdapter(module, in, out, rank, scale, dropout, dtype),
      magnitude{.name = module + ".lora_magnitude_vector", .shape = {out}, .trainable = true},
      squares{.name = module + ".lora_row_squares", .shape = {out}, .stands_for = 0} {}

Rescaling::Factors DoraAdapter::factors(Ctx& c, const Weight& weight) const {
  const std::int64_t n = b.shape[0], r = rank();
  const Factors f{c.scratch.take({n}, DType::f32), c.scratch.take({n}, DType::f32)};
  Scope scratch(c.scratch);
  const Tensor gram = c.temporary(r, r), p = c.scratch.take({r, n}, DType::f32);
  product(c.ops, gram, {a.value, Trans::no, a.value, Trans::yes}, scale() / 2);
  Sum sum(c.ops, p, {}, 2 * scale());
  Term cross = weight.times(a.value, Trans::yes);
  cross.fp8_rows = false;  // the norms are of W, and A is not rounded
  sum.add(cross);
  sum.add({gram, Trans::no, b.value, Trans::yes});
  sum.run();
  c.ops.run(op::Magnitudes{.scale = f.scale,
                           .per_norm = f.per_norm,
                           .magnitude = magnitude.value,
                           .squares = squares.value,
                           .b = b.value,
                           .p = p});
  return f;
}

void DoraAdapter::visit_up(Visitor& v) {
  v.parameter(b);
  v.parameter(magnitude);
  v.parameter(squares);
}

void DoraAdapter::merge(Ops& ops, const ParameterValues& values, Tensor y, bool turned) const {
  LoraAdapter::merge(ops, values, y, turned);
  const Tensor m = values(magnitude);
  const std::int64_t out = m.numel(), in = y.numel() / out;
  for (std::int64_t r = 0; r < out; ++r) {
    const auto weight = [&](std::int64_t i) -> float& {
      return y.as<float>()[turned ? i * out + r : r * in + i];
    };
    double sum = 0;
    for (std::int64_t i = 0; i < in; ++i) sum += static_cast<double>(weight(i)) * weight(i);
    const auto by = static_cast<float>(m.as<float>()[r] / std::sqrt(sum));
    for (std::int64_t i = 0; i < in; ++i) weight(i) *= by;
  }
}

}  // namespace ft::lora
