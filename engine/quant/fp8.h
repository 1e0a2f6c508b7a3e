// Numbers in 8 bits with a floating point, and matrices of them. The CPU and CUDA use the same formulas.
//
// e4m3 (OCP "8-bit Floating Point Specification (OFP8)", 2023; torch.float8_e4m3fn; Micikevicius et al., "FP8
// formats for deep learning", 2022): a sign, 4 bits of exponent with bias 7, 3 bits of fraction. The largest
// number is 448, the smallest above 0 is 2^-9; there is no infinity, and NaN is 0x7f or 0xff.
//
// A matrix in FP8 is cut into tiles that share a scale in f32. An element is value(code) * scale, rounded
// once to the type of the product. To quantize a tile:
//   scale = amax / 448, at least 2^-126; amax is the largest absolute value of the tile
//   code  = e4m3(element / scale), rounded to the nearest, ties to even
// All three are operations in f32. The least scale is the smallest normal f32, so that subnormal elements
// lose no more than others do. A tile of zeros has it too: it is then small where scales are multiplied into
// other numbers (fp8_rows.h).
#pragma once
#include <bit>
#include <cstdint>

#include "engine/core/dtype.h"

namespace ft {

struct e4m3 {
  std::uint8_t bits;
};
constexpr float kMostE4m3 = 448;

FT_HD inline bool is_nan(e4m3 v) { return (v.bits & 0x7fu) == 0x7fu; }
FT_HD inline float to_float(e4m3 v) {
  const std::uint32_t sign = std::uint32_t{v.bits & 0x80u} << 24, rest = v.bits & 0x7fu;
  if (rest == 0x7fu) return __builtin_bit_cast(float, sign | 0x7ff00000u);
  if (rest >= 8u) return __builtin_bit_cast(float, sign | ((rest << 20) + 0x3c000000u));
  const float small = static_cast<float>(static_cast<int>(rest)) * 0x1p-9f;
  return __builtin_bit_cast(float, sign | __builtin_bit_cast(std::uint32_t, small));
}
// Rounds to the nearest number, ties to even. Larger magnitudes than 448, infinity too, become 448 with their
// sign, as x.clamp(-448, 448).to(torch.float8_e4m3fn) does. A NaN stays a NaN with its sign.
FT_HD inline void from_float(e4m3& y, float v) {
  const auto u = __builtin_bit_cast(std::uint32_t, v);
  const std::uint32_t sign = u >> 24 & 0x80u, a = u & 0x7fffffffu;
  std::uint32_t code = 0;
  if (a > 0x7f800000u)
    code = 0x7fu;
  else if (a >= 0x43e00000u)  // 448
    code = 0x7eu;
  else if (a < 0x3c800000u)  // subnormal: units of 2^-9, the distance of f32 numbers from 2^14 on
    code = __builtin_bit_cast(std::uint32_t, __builtin_bit_cast(float, a) + 16384.0f) - 0x46800000u;
  else
    code = (a - 0x3c000000u + 0x7ffffu + (a >> 20 & 1u)) >> 20;
  y.bits = static_cast<std::uint8_t>(sign | code);
}

// The scale of elements with this largest absolute value: NaN if amax is NaN, infinite if amax is.
FT_HD inline float fp8_scale(float amax) {
  const float scale = amax / kMostE4m3;
  return scale < 0x1p-126f ? 0x1p-126f : scale;
}
FT_HD inline e4m3 fp8_code(float element, float scale) {
  e4m3 code;
  from_float(code, element / scale);
  return code;
}

// Tiles that share a scale: `rows` rows and `cols` columns; 0: all of the matrix. The last tile of an axis
// may be smaller. Scales of a matrix lie in memory as the matrix (scale_rows, scale_cols).
struct Fp8Scheme {
  std::int64_t rows = 1, cols = 0;

  FT_HD std::int64_t scale_rows(std::int64_t matrix_rows) const {
    return rows == 0 ? 1 : (matrix_rows + rows - 1) / rows;
  }
  FT_HD std::int64_t scale_cols(std::int64_t matrix_cols) const {
    return cols == 0 ? 1 : (matrix_cols + cols - 1) / cols;
  }
  std::int64_t scales(std::int64_t matrix_rows, std::int64_t matrix_cols) const {
    return scale_rows(matrix_rows) * scale_cols(matrix_cols);
  }
  bool operator==(const Fp8Scheme&) const = default;
};
constexpr Fp8Scheme kFp8Channels{1, 0};    // a scale for each row of W (out, in): an output channel
constexpr Fp8Scheme kFp8Blocks{128, 128};  // DeepSeek's and Qwen's
constexpr Fp8Scheme kFp8Tensor{0, 0};
constexpr bool is_fp8_scheme(const Fp8Scheme& s) {
  return s == kFp8Channels || s == kFp8Blocks || s == kFp8Tensor;
}

// Bits of a tile's side of n places: place i is in tile i >> bits.
constexpr int tile_bits(std::int64_t n) {
  return n == 0 ? 62 : std::countr_zero(static_cast<std::uint64_t>(n));
}

}  // namespace ft
