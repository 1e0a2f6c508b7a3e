// GGUF's blocks of 256 weights that are -d, 0 or d. TQ2_0 has 64 bytes with four codes each, then d. TQ1_0
// has 48 bytes with five codes each and 4 with four, then d: a byte is about 256 / 243 times the number whose
// digits in base 3 are the codes, so that a product with 3 shifts a code out at the top.
#include "engine/formats/gguf/ggml_blocks.h"
#include "engine/formats/gguf/ggml_numbers.h"

namespace ft {
namespace {

// Decodes `digits` codes from each of `count` bytes. Weight digit * count + i is in byte i.
float* put_ternary(const std::uint8_t* x, int count, int digits, float d, float* y) {
  static constexpr int kPowers[] = {1, 3, 9, 27, 81};
  for (int digit = 0; digit < digits; ++digit)
    for (int i = 0; i < count; ++i) {
      const int top = x[i] * kPowers[digit] & 255;
      *y++ = d * static_cast<float>((top * 3 >> 8) - 1);
    }
  return y;
}

}  // namespace

void dequantize_tq1_0(const std::uint8_t* x, float* y) {
  const float d = get_f16(x + 52);
  y = put_ternary(x, 32, 5, d, y);
  y = put_ternary(x + 32, 16, 5, d, y);
  put_ternary(x + 48, 4, 4, d, y);
}

void dequantize_tq2_0(const std::uint8_t* x, float* y) {
  const float d = get_f16(x + 64);
  for (int i = 0; i < kLargeBlock; ++i) {
    const int code = x[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
    y[i] = d * static_cast<float>(code - 1);
  }
}

}  // namespace ft
