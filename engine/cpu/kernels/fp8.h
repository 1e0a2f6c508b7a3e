// Right operands in FP8: engine/quant/fp8.h. f16 and f32 have the fields of e4m3 with more bits and other
// biases. Vectors of codes are shifted into f16 and converted to f32; single bytes of words are shifted into
// f32. A multiplication makes up for the bias. In f32 the smallest codes are denormals until then, which cost
// Intel's older CPUs some time.
#pragma once
#include "engine/cpu/kernels/codes.h"

namespace ft::cpu::FT_TARGET {
namespace {

constexpr float kBiasOfF16 = 0x1p8f, kBiasOfF32 = 0x1p120f;  // 2^(15 - 7), 2^(127 - 7)

inline float scale_of(const Fp8Operand& q, i64 row, i64 column) {
  return q.scales[(row >> q.row_bits) * q.scale_cols + (column >> q.col_bits)];
}

// Decodes elements [at, at + n) of one row.
template <class T>
inline void decode(T* to, const Fp8Operand& q, i64 at, i64 n) {
  const i64 row = at / q.cols, end = at + n - row * q.cols;
  for (i64 column = at - row * q.cols; column < end;) {
    const i64 here = smaller(end, ((column >> q.col_bits) + 1) << q.col_bits) - column;
    const Vec scale = splat(scale_of(q, row, column));
    const std::uint8_t* codes = q.codes + row * q.cols + column;
    i64 i = 0;
    for (; i + kLanes <= here; i += kLanes) store(to + i, load_e4m3(codes + i) * splat(kBiasOfF16) * scale);
    if (i < here) {
      std::uint8_t last[kLanes] = {};
      __builtin_memcpy(last, codes + i, static_cast<std::size_t>(here - i));
      store(to + i, load_e4m3(last) * splat(kBiasOfF16) * scale, here - i);
    }
    to += here;
    column += here;
  }
}

// Values of a word of codes, before they are scaled.
template <>
struct Codes<Fp8Operand> {
  static constexpr i64 kOfWord = 4;
  explicit Codes(const Fp8Operand&) {}
  static const std::uint8_t* at(const Fp8Operand& q, i64 i) { return q.codes + i; }
  Vec operator()(WordVec w, int i) const { return e4m3_byte(w, i) * splat(kBiasOfF32); }
};

}  // namespace
}  // namespace ft::cpu::FT_TARGET
