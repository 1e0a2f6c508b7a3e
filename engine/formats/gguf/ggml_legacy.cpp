// GGUF's blocks of 32, with a scale, or a scale and a smallest value. IQ4_XS packs eight of IQ4_NL's blocks
// into one of 256: d, the high two bits of eight scales, their low four, the codes. MXFP4 has a power of two,
// in 8 bits, before the codes.
#include <algorithm>
#include <array>
#include <cmath>

#include "engine/formats/gguf/ggml_blocks.h"
#include "engine/formats/gguf/ggml_numbers.h"
#include "engine/quant/block_codes.h"

namespace ft {
namespace {

constexpr int kHalf = kSmallBlock / 2;

// Returns the value of the largest magnitude, the first of equals.
float furthest(const float* x) {
  float most = 0, at = 0;
  for (int i = 0; i < kSmallBlock; ++i)
    if (std::fabs(x[i]) > most) {
      most = std::fabs(x[i]);
      at = x[i];
    }
  return at;
}

// Packs codes i and i + 16 into byte i.
void put_pairs(const std::uint8_t* codes, std::uint8_t* y) {
  for (int i = 0; i < kHalf; ++i)
    y[i] = static_cast<std::uint8_t>((codes[i] & 15) | ((codes[i + kHalf] & 15) << 4));
}
void put_fifth_bits(const std::uint8_t* codes, std::uint8_t* y) {
  std::uint32_t bits = 0;
  for (int i = 0; i < kSmallBlock; ++i) bits |= static_cast<std::uint32_t>(codes[i] >> 4 & 1) << i;
  std::memcpy(y, &bits, sizeof bits);
}

int low_code(const std::uint8_t* pairs, int i) { return i < kHalf ? pairs[i] & 15 : pairs[i - kHalf] >> 4; }
int code_of_five(const std::uint8_t* fifth, const std::uint8_t* pairs, int i) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, fifth, sizeof bits);
  return low_code(pairs, i) | static_cast<int>((bits >> i & 1) << 4);
}

// Codes around zero. The value of the largest magnitude gets the lowest code.
template <class Codes>
void quantize_centred(const float* x, std::uint8_t* codes, std::uint8_t* scale) {
  const float d = Codes::scale(furthest(x)), inverse = block_inverse(d);
  put_f16(scale, d);
  for (int i = 0; i < kSmallBlock; ++i) codes[i] = static_cast<std::uint8_t>(Codes::code(x[i] * inverse));
}

// Codes from the smallest value to the largest.
template <int bits>
void quantize_range(const float* x, std::uint8_t* codes, std::uint8_t* scale) {
  constexpr int kMost = (1 << bits) - 1;
  const auto [low, high] = std::minmax_element(x, x + kSmallBlock);
  const float d = (*high - *low) / kMost, inverse = d != 0 ? 1 / d : 0;
  put_f16(scale, d);
  put_f16(scale + 2, *low);
  for (int i = 0; i < kSmallBlock; ++i) {
    const int code = static_cast<std::uint8_t>((x[i] - *low) * inverse + 0.5f);
    codes[i] = static_cast<std::uint8_t>(std::min(kMost, code));
  }
}

// Levels of IQ4_NL and IQ4_XS.
constexpr std::array<std::int8_t, 16> kLevels = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                 1,    13,   25,  38,  53,  69,  89,  113};

int nearest_level(float x) {
  if (x <= kLevels.front()) return 0;
  if (x >= kLevels.back()) return static_cast<int>(kLevels.size()) - 1;
  int below = 0, above = static_cast<int>(kLevels.size()) - 1;
  while (above - below > 1) {
    const int middle = (below + above) / 2;
    (x < kLevels[static_cast<std::size_t>(middle)] ? above : below) = middle;
  }
  const float to_below = x - kLevels[static_cast<std::size_t>(above - 1)],
              to_above = kLevels[static_cast<std::size_t>(above)] - x;
  return to_below < to_above ? above - 1 : above;
}

// Twice the values of MXFP4 (OCP microscaling formats, E2M1).
constexpr std::array<std::int8_t, 16> kE2m1 = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

// Returns 2^(exponent - 128).
float half_power(std::uint8_t exponent) {
  const std::uint32_t bits = exponent < 2 ? 0x200000u << exponent : (exponent - 1u) << 23;
  return std::bit_cast<float>(bits);
}

// Weighted least squares fit of x = scale * level, with weights x^2 and the levels nearest to inverse * x.
// scale() = sum(w q x) / sum(w q q). The fit's gain, sum(w q x)^2 / sum(w q q), is scale() * xq.
struct LevelFit {
  float xq = 0, qq = 0;
  LevelFit(const float* x, float inverse) {
    for (int i = 0; i < kSmallBlock; ++i) {
      const float q = kLevels[static_cast<std::size_t>(nearest_level(inverse * x[i]))], w = x[i] * x[i];
      xq += w * q * x[i];
      qq += w * q * q;
    }
  }
  float scale() const { return xq / qq; }
};

float scale_of_levels(const float* x) {
  const float most = furthest(x);
  if (std::fabs(most) < kGgmlSmallest) return 0;
  const LevelFit first(x, 1 / (-most / kLevels[0]));
  float scale = first.scale(), best = scale * first.xq;
  for (int step = -7; step <= 7; ++step) {
    const LevelFit fit(x, static_cast<float>(step + kLevels[0]) / most);
    if (fit.qq > 0 && fit.xq * fit.xq > best * fit.qq) {
      scale = fit.scale();
      best = scale * fit.xq;
    }
  }
  return scale;
}

}  // namespace

void quantize_q4_0(const float* x, std::uint8_t* y) {
  std::uint8_t codes[kSmallBlock];
  quantize_centred<CentredCodes<4>>(x, codes, y);
  put_pairs(codes, y + 2);
}

void quantize_q4_1(const float* x, std::uint8_t* y) {
  std::uint8_t codes[kSmallBlock];
  quantize_range<4>(x, codes, y);
  put_pairs(codes, y + 4);
}

void quantize_q5_0(const float* x, std::uint8_t* y) {
  std::uint8_t codes[kSmallBlock];
  quantize_centred<CentredCodes<5>>(x, codes, y);
  put_fifth_bits(codes, y + 2);
  put_pairs(codes, y + 6);
}

void quantize_q5_1(const float* x, std::uint8_t* y) {
  std::uint8_t codes[kSmallBlock];
  quantize_range<5>(x, codes, y);
  put_fifth_bits(codes, y + 4);
  put_pairs(codes, y + 8);
}

void quantize_q8_0(const float* x, std::uint8_t* y) {
  const float d = SignedBytes::scale(furthest(x)), inverse = block_inverse(d);
  put_f16(y, d);
  for (int i = 0; i < kSmallBlock; ++i)
    y[2 + i] = static_cast<std::uint8_t>(static_cast<std::int8_t>(SignedBytes::code(x[i] * inverse)));
}

void quantize_iq4_nl(const float* x, std::uint8_t* y) {
  const float scale = scale_of_levels(x), inverse = scale != 0 ? 1 / scale : 0;
  put_f16(y, scale);
  std::uint8_t codes[kSmallBlock];
  for (int i = 0; i < kSmallBlock; ++i) codes[i] = static_cast<std::uint8_t>(nearest_level(inverse * x[i]));
  put_pairs(codes, y + 2);
}

void dequantize_q4_0(const std::uint8_t* x, float* y) {
  const float d = get_f16(x);
  for (int i = 0; i < kSmallBlock; ++i) y[i] = CentredCodes<4>::value(low_code(x + 2, i), d);
}

void dequantize_q4_1(const std::uint8_t* x, float* y) {
  const float d = get_f16(x), low = get_f16(x + 2);
  for (int i = 0; i < kSmallBlock; ++i) y[i] = static_cast<float>(low_code(x + 4, i)) * d + low;
}

void dequantize_q5_0(const std::uint8_t* x, float* y) {
  const float d = get_f16(x);
  for (int i = 0; i < kSmallBlock; ++i) y[i] = CentredCodes<5>::value(code_of_five(x + 2, x + 6, i), d);
}

void dequantize_q5_1(const std::uint8_t* x, float* y) {
  const float d = get_f16(x), low = get_f16(x + 2);
  for (int i = 0; i < kSmallBlock; ++i) y[i] = static_cast<float>(code_of_five(x + 4, x + 8, i)) * d + low;
}

void dequantize_q8_0(const std::uint8_t* x, float* y) {
  const float d = get_f16(x);
  for (int i = 0; i < kSmallBlock; ++i) y[i] = SignedBytes::value(static_cast<std::int8_t>(x[2 + i]), d);
}

void dequantize_iq4_nl(const std::uint8_t* x, float* y) {
  const float d = get_f16(x);
  for (int i = 0; i < kSmallBlock; ++i) y[i] = d * kLevels[static_cast<std::size_t>(low_code(x + 2, i))];
}

void dequantize_mxfp4(const std::uint8_t* x, float* y) {
  const float scale = half_power(x[0]);
  for (int i = 0; i < kSmallBlock; ++i) y[i] = scale * kE2m1[static_cast<std::size_t>(low_code(x + 1, i))];
}

void dequantize_iq4_xs(const std::uint8_t* x, float* y) {
  const float d = get_f16(x);
  for (int j = 0; j < kLargeBlock / kSmallBlock; ++j) {
    const int low = x[4 + j / 2] >> (j % 2 * 4) & 15, high = x[2 + j / 4] >> (j % 4 * 2) & 3;
    const float scale = d * static_cast<float>((low | high << 4) - 32);
    const std::uint8_t* pairs = x + 8 + j * kHalf;
    for (int i = 0; i < kSmallBlock; ++i)
      y[j * kSmallBlock + i] = scale * kLevels[static_cast<std::size_t>(low_code(pairs, i))];
  }
}

}  // namespace ft
