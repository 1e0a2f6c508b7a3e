// Codes of the dynamic map for many numbers side by side, by arithmetic: between two powers of ten the map's
// numbers lie evenly. Made for CPUs' vectors.
#pragma once
#include <array>

#include "engine/core/dynamic_map.h"

namespace ft {

// Codes of magnitudes a in [0, 1], counted from the code of 0. The n numbers below a power of ten M are
// M (0.1 + 0.9 (k + 1/2) / n), so on the line
//   place(a) = first + n / 0.9 (a / M - 0.1)
// the bounds between them are whole, and the code is place(a) rounded down. The bound between the last of
// them and M's first above, which is `next` = first + n, is whole too: next + 1. So from `next` on the code
// is place(a) - 1 rounded down, and `next` at most: a line may serve as far as the bound behind.
struct DynamicLines {
  // Line 0 is around 0, lines 1 to 7 are of the powers 10^-6 to 1, line 8 is line 7.
  std::array<float, 16> scale, start, next;  // place(a) - 1/2 = scale a + start; next for 7 is never reached
  // The number of a's line is by_bits bits(a) + from_bits rounded to nearest: the bits of an f32, read as an
  // integer, are about 2^23 (127 + log2 a).
  float by_bits, from_bits;
  float zero;  // the code of 0

  static constexpr float kLeast = 0x1p-23f;  // what is less has code 0, but no line
  // Numbers are made less by this part, so that after all rounding the greatest is below 1, whose bound no
  // code is above.
  static constexpr float kShort = 0x1p-20f;
  // Closer than this to a bound, and above kTop, one of two neighbours may have been taken for the other.
  static constexpr float kNear = 0x1p-11f, kTop = 0.9955f;
};
const DynamicLines& dynamic_lines(bool has_signs);

// dynamic_code(x), which is `code` or next to it.
inline int dynamic_code_near(const float* bounds, int code, float x) {
  if (code > 0 && !(bounds[code - 1] < x)) return code - 1;
  return code + (code < 255 && bounds[code] < x);
}

}  // namespace ft
