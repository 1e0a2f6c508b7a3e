// How K-quants find the scale of a small block: a few scales are tried, each with the best codes and then the
// best scale for these codes, by weighted least squares.
#pragma once
#include <cstdint>

namespace ft {

struct ScaleAndMin {
  float scale = 0, min = 0;  // x = scale * code - min, min >= 0
};
// Codes 0 .. most; `first` + 0.1 i for i = 0 .. steps is added to `most` for the inverse scales to try.
struct RangeSearch {
  int most;
  float first;
  int steps;
};
inline constexpr int kRangeBlock = 32;
ScaleAndMin search_range(const float* x, const float* weights, const RangeSearch&, std::uint8_t* codes);

// x = scale * (code - 32), codes 0 .. 63, of 16 values weighted by x^2.
inline constexpr int kCentredBlock = 16;
float search_centred(const float* x, std::uint8_t* codes);

}  // namespace ft
