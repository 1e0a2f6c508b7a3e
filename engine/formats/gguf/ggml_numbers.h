// Numbers inside GGUF's blocks.
#pragma once
#include <bit>
#include <cstdint>
#include <cstring>

#include "engine/core/dtype.h"

namespace ft {

// Stores x as f16 at y. Returns the value that a reader will get.
inline float put_f16(std::uint8_t* y, float x) {
  f16 stored;
  from_float(stored, x);
  std::memcpy(y, &stored, sizeof stored);
  return to_float(stored);
}
inline float get_f16(const std::uint8_t* x) {
  f16 stored;
  std::memcpy(&stored, x, sizeof stored);
  return to_float(stored);
}

// Rounds to the nearest integer, ties to even. |x| must be below 2^22.
inline int nearest(float x) {
  const float shifted = x + 12582912.0f;  // 1.5 x 2^23: the integer is in the lowest bits
  return static_cast<int>(std::bit_cast<std::uint32_t>(shifted) & 0x7fffff) - 0x400000;
}

// Blocks whose values are all smaller become zeros.
inline constexpr float kGgmlSmallest = 1e-15f;

}  // namespace ft
