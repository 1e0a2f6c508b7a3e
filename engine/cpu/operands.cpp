#include "engine/cpu/operands.h"

namespace ft::cpu {

FourBitOperand operand_of(const FourBitMatrix& m) {
  const auto floats = [](const Tensor& t) { return t ? t.as<float>() : nullptr; };
  const bool coded = m.form.has_coded_scales();
  return {four_bit_values(m.form.book),
          m.codes.as<std::uint8_t>(),
          m.form.block,
          coded ? nullptr : floats(m.absmax),
          coded ? m.absmax.as<std::uint8_t>() : nullptr,
          nested_map().data(),
          floats(m.nested_absmax),
          m.form.nested ? *floats(m.nested_offset) : 0};
}

Int8Operand operand_of(const Int8Matrix& m) {
  return {reinterpret_cast<const std::int8_t*>(m.codes.as<std::uint8_t>()), kInt8Block, m.scales.as<float>()};
}

Fp8Operand operand_of(const Fp8Matrix& m) {
  return {m.codes.as<std::uint8_t>(), m.shape[1],
          m.scales.as<float>(),       m.scheme.scale_cols(m.shape[1]),
          tile_bits(m.scheme.rows),   tile_bits(m.scheme.cols)};
}

}  // namespace ft::cpu
