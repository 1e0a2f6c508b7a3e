// bitsandbytes' 8-bit codes of numbers in [-1, 1], or in [0, 1]: "dynamic tree quantization" (Dettmers,
// "8-bit approximations for parallelism in deep learning", ICLR 2016). A code is a place in an ascending map.
#pragma once
#include <array>

#include "engine/core/dtype.h"

namespace ft {

// For each power of ten from 10^-6 to 1 the midpoints of 1, 2, 4, ... 64 equal parts of [0.1, 1] times it,
// with both signs; and 0 and 1. Unsigned: of 2, 4, ... 128 parts.
using DynamicMap = std::array<float, 256>;
const DynamicMap& dynamic_map(bool has_signs);

// Between a code and the next, where numbers from the one end and those from the other begin.
using DynamicBounds = std::array<float, 255>;
FT_HD inline float dynamic_bound(const float* map, int code) { return (map[code] + map[code + 1]) / 2; }
const DynamicBounds& dynamic_bounds(bool has_signs);

// The code nearest to x; of two the lower.
FT_HD inline int dynamic_code(const float* bounds, float x) {
  int code = 0;
  for (int step = 128; step > 0; step /= 2) code += bounds[code + step - 1] < x ? step : 0;
  return code;
}

}  // namespace ft
