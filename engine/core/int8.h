// Matrices in 8 bits, for answers. The elements, row after row, are cut into blocks; of each a scale is kept,
// the largest absolute value / 127, and for each element a whole number from -127 to 127:
// element = code * scale. That is GGUF's Q8_0 with other blocks and scales in f32.
#pragma once
#include <cstdint>

namespace ft {

constexpr std::int64_t kInt8Block = 64;  // elements
constexpr std::int64_t int8_blocks(std::int64_t elements) { return (elements + kInt8Block - 1) / kInt8Block; }

inline float int8_scale(float absmax) { return absmax / 127; }
// The nearest code, the even one of two. Adding 1.5 * 2^23 rounds as std::nearbyint does, in vectors.
inline std::int8_t int8_code(float x, float scale) {
  constexpr float kWhole = 12582912;
  return static_cast<std::int8_t>(scale > 0 ? (x / scale + kWhole) - kWhole : 0);
}

}  // namespace ft
