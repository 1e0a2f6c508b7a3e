// bitsandbytes' 8-bit codes of numbers in [-1, 1] or in [0, 1]: "dynamic tree quantization" (Dettmers, "8-bit
// approximations for parallelism in deep learning", ICLR 2016). A code is an index into an ascending map.
#pragma once
#include <array>

#include "engine/core/dtype.h"

namespace ft {

// The map's numbers: 0, 1, and, for the i-th power of ten from 10^-6 to 1 (i = 0 ... 6), the midpoints of 2^i
// equal parts of [0.1, 1] times that power, with both signs. Without signs there are 2^(i + 1) parts.
using DynamicMap = std::array<float, 256>;
const DynamicMap& dynamic_map(bool has_signs);

// The bounds between neighbouring codes: numbers above a bound get the upper code.
using DynamicBounds = std::array<float, 255>;
FT_HD inline float dynamic_bound(const float* map, int code) { return (map[code] + map[code + 1]) / 2; }
const DynamicBounds& dynamic_bounds(bool has_signs);

// Returns the code nearest to x; halfway between two, the lower.
FT_HD inline int dynamic_code(const float* bounds, float x) {
  int code = 0;
  for (int step = 128; step > 0; step /= 2) code += bounds[code + step - 1] < x ? step : 0;
  return code;
}

}  // namespace ft
