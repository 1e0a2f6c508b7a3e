// Codes of the dynamic map for many numbers at once, by arithmetic. Between two powers of ten the map's
// numbers are evenly spaced. Made for CPU vectors.
#pragma once
#include <array>

#include "engine/quant/dynamic_map.h"

namespace ft {

// Codes of magnitudes a in [0, 1], counted from the code of 0. The n numbers below a power of ten M are M
// (0.1 + 0.9 (k + 1/2) / n). On the line
//   place(a) = first + n / 0.9 (a / M - 0.1)
// the bounds between them are integers, and the code is place(a) rounded down. `next` = first + n. The bound
// between the last of these numbers and the first number above M is an integer too: next + 1. So from `next`
// on, the code is place(a) - 1 rounded down, and at most `next`: a line may be used up to that last bound.
struct DynamicLines {
  // Line 0 is around 0, lines 1 to 7 belong to the powers 10^-6 to 1, line 8 equals line 7.
  std::array<float, 16> scale, start, next;  // place(a) - 1/2 = scale a + start; next for 7 is never reached
  // The number of a's line is by_bits bits(a) + from_bits, rounded to nearest. The bits of an f32, read as an
  // integer, are about 2^23 (127 + log2 a).
  float by_bits, from_bits;
  float zero;  // the code of 0

  static constexpr float kLeast = 0x1p-23f;  // smaller numbers have code 0, but no line
  // Numbers are reduced by this fraction, so that after rounding the greatest stays below 1: no code lies
  // above the bound at 1.
  static constexpr float kShort = 0x1p-20f;
  // Numbers closer than kNear to a bound, and numbers above kTop, may have got the code of a neighbour.
  static constexpr float kNear = 0x1p-11f, kTop = 0.9955f;
};
const DynamicLines& dynamic_lines(bool has_signs);

// Returns dynamic_code(x), given a code that is equal to it or next to it.
inline int dynamic_code_near(const float* bounds, int code, float x) {
  if (code > 0 && !(bounds[code - 1] < x)) return code - 1;
  return code + (code < 255 && bounds[code] < x);
}

}  // namespace ft
