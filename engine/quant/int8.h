// Matrices in 8 bits, for generation. The elements, row after row, are cut into blocks. A block keeps a
// scale, its largest absolute value / 127. Each element keeps an integer code from -127 to 127: element =
// code * scale. This is GGUF's Q8_0 with another block size and f32 scales.
#pragma once
#include <cstdint>

namespace ft {

constexpr std::int64_t kInt8Block = 64;  // elements
constexpr std::int64_t int8_blocks(std::int64_t elements) { return (elements + kInt8Block - 1) / kInt8Block; }

inline float int8_scale(float absmax) { return absmax / 127; }
// Returns the nearest code; halfway between two, the even one. Adding 1.5 * 2^23 rounds as std::nearbyint
// does, and compiles to vector code.
inline std::int8_t int8_code(float x, float scale) {
  constexpr float kWhole = 12582912;
  return static_cast<std::int8_t>(scale > 0 ? (x / scale + kWhole) - kWhole : 0);
}

}  // namespace ft
