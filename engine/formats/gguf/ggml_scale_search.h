// Search for the scale of a small block of K-quants: tries a few scales, each with the best codes and then
// the best scale for these codes, by weighted least squares.
#pragma once
#include <cstdint>

namespace ft {

struct ScaleAndMin {
  float scale = 0, min = 0;  // x = scale * code - min, min >= 0
};
// Codes are 0 .. most. The inverse scales to try are (most + first + 0.1 i) / range for i = 0 .. steps.
struct RangeSearch {
  int most;
  float first;
  int steps;
};
inline constexpr int kRangeBlock = 32;
ScaleAndMin search_range(const float* x, const float* weights, const RangeSearch&, std::uint8_t* codes);

// Finds x = scale * (code - 32), codes 0 .. 63, for 16 values weighted by x^2. Returns the scale.
inline constexpr int kCentredBlock = 16;
float search_centred(const float* x, std::uint8_t* codes);

}  // namespace ft
