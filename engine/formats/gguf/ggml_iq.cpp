// GGUF's blocks of 256 with one to three bits a weight: each code selects a point of a grid (ggml_grids.h). A
// small block has a scale, a multiple of the f16 number d. The layouts are
//   IQ2_XXS: d; for each 32 weights 4 codes, and 32 bits: 4 x 7 of signs, 4 of the scale
//   IQ2_XS:  d; 32 x 16 bits: 9 of the code, 7 of signs; 16 scales of 4 bits
//   IQ2_S:   d; 32 codes, 32 bytes of signs, 8 bytes of the codes' ninth and tenth bits; 16 scales of 4 bits
//   IQ3_XXS: d; 64 codes; for each 32 weights 32 bits: 4 x 7 of signs, 4 of the scale
//   IQ3_S:   d; 64 codes, 8 bytes of their ninth bits, 32 bytes of signs; 8 scales of 4 bits
//   IQ1_S:   d; 32 codes; for each 32 weights 16 bits: 4 x 3 high bits, 3 of the scale, the shift's sign
//   IQ1_M:   32 codes; 16 bytes, for each code 3 high bits and the shift's sign; 4 x 16 bits: 4 scales of 3
//            bits, and 4 bits of d
#include <bit>
#include <cstring>

#include "engine/formats/gguf/ggml_blocks.h"
#include "engine/formats/gguf/ggml_grids.h"
#include "engine/formats/gguf/ggml_numbers.h"

namespace ft {
namespace {

constexpr int kEight = 8;  // weights of a byte of signs

std::uint32_t word_at(const std::uint8_t* x) {
  std::uint32_t word = 0;
  std::memcpy(&word, x, sizeof word);
  return word;
}
unsigned half_word_at(const std::uint8_t* x) { return static_cast<unsigned>(x[0] | x[1] << 8); }

// The bits of eight signs, from the first seven: the number of negative weights is even.
unsigned eight_signs(unsigned seven) { return seven | (std::popcount(seven) & 1u) << 7; }

// y = scale * point, negative where the bits of `signs` are set.
template <std::size_t width>
void put_signed(float* y, float scale, const std::array<std::int8_t, width>& point, unsigned signs) {
  for (std::size_t i = 0; i < width; ++i) {
    const float value = scale * static_cast<float>(point[i]);
    y[i] = (signs >> i & 1) != 0 ? -value : value;
  }
}

// Eight weights of a grid whose points have four.
void put_two_points(float* y, float scale, const std::array<std::int8_t, 4>& first,
                    const std::array<std::int8_t, 4>& second, unsigned signs) {
  put_signed(y, scale, first, signs);
  put_signed(y + 4, scale, second, signs >> 4);
}

int four_bits(const std::uint8_t* x, int i) { return x[i / 2] >> (i % 2 * 4) & 15; }

float half_steps(float d, unsigned scale, float unit) {
  return d * (0.5f + static_cast<float>(scale)) * unit;
}

// y = scale * (point + shift)
void put_shifted(float* y, float scale, const std::array<std::int8_t, kEight>& point, bool down) {
  const float shift = down ? -0.125f : 0.125f;
  for (std::size_t i = 0; i < kEight; ++i) y[i] = scale * (static_cast<float>(point[i]) + shift);
}

}  // namespace

void dequantize_iq2_xxs(const std::uint8_t* x, float* y) {
  const float d = get_f16(x);
  x += 2;
  for (int j = 0; j < kLargeBlock / kSmallBlock; ++j, x += 8) {
    const std::uint32_t rest = word_at(x + 4);
    const float scale = half_steps(d, rest >> 28, 0.25f);
    for (int k = 0; k < 4; ++k, y += kEight)
      put_signed(y, scale, kIq2XxsGrid[x[k]], eight_signs(rest >> 7 * k & 127));
  }
}

void dequantize_iq2_xs(const std::uint8_t* x, float* y) {
  const float d = get_f16(x);
  const std::uint8_t *codes = x + 2, *scales = x + 66;
  for (int i = 0; i < kLargeBlock / kEight; ++i, y += kEight) {
    const unsigned code = half_word_at(codes + 2 * i);
    const float scale = half_steps(d, static_cast<unsigned>(four_bits(scales, i / 2)), 0.25f);
    put_signed(y, scale, kIq2XsGrid[code & 511], eight_signs(code >> 9));
  }
}

void dequantize_iq2_s(const std::uint8_t* x, float* y) {
  const float d = get_f16(x);
  const std::uint8_t *codes = x + 2, *signs = x + 34, *high = x + 66, *scales = x + 74;
  for (int i = 0; i < kLargeBlock / kEight; ++i, y += kEight) {
    const int code = codes[i] | (high[i / 4] >> (i % 4 * 2) & 3) << 8;
    const float scale = half_steps(d, static_cast<unsigned>(four_bits(scales, i / 2)), 0.25f);
    put_signed(y, scale, kIq2SGrid[static_cast<std::size_t>(code)], signs[i]);
  }
}

void dequantize_iq3_xxs(const std::uint8_t* x, float* y) {
  const float d = get_f16(x);
  const std::uint8_t *codes = x + 2, *rests = x + 66;
  for (int j = 0; j < kLargeBlock / kSmallBlock; ++j, rests += 4) {
    const std::uint32_t rest = word_at(rests);
    const float scale = half_steps(d, rest >> 28, 0.5f);
    for (int k = 0; k < 4; ++k, y += kEight, codes += 2)
      put_two_points(y, scale, kIq3XxsGrid[codes[0]], kIq3XxsGrid[codes[1]],
                     eight_signs(rest >> 7 * k & 127));
  }
}

void dequantize_iq3_s(const std::uint8_t* x, float* y) {
  const float d = get_f16(x);
  const std::uint8_t *codes = x + 2, *high = x + 66, *signs = x + 74, *scales = x + 106;
  const auto point = [&](int i) -> const auto& {
    return kIq3SGrid[static_cast<std::size_t>(codes[i] | (high[i / 8] >> i % 8 & 1) << 8)];
  };
  for (int i = 0; i < kLargeBlock / kEight; ++i, y += kEight) {
    const float scale = d * static_cast<float>(1 + 2 * four_bits(scales, i / 4));
    put_two_points(y, scale, point(2 * i), point(2 * i + 1), signs[i]);
  }
}

void dequantize_iq1_s(const std::uint8_t* x, float* y) {
  const float d = get_f16(x);
  const std::uint8_t *codes = x + 2, *rests = x + 34;
  for (int i = 0; i < kLargeBlock / kEight; ++i, y += kEight) {
    const unsigned rest = half_word_at(rests + i / 4 * 2), code = codes[i] | (rest >> i % 4 * 3 & 7) << 8;
    const float scale = d * static_cast<float>(2 * (rest >> 12 & 7) + 1);
    put_shifted(y, scale, kIq1Grid[code], rest >> 15 != 0);
  }
}

void dequantize_iq1_m(const std::uint8_t* x, float* y) {
  const std::uint8_t *codes = x, *high = x + 32, *scales = x + 48;
  std::uint8_t number[2] = {};
  for (int i = 0; i < 4; ++i)
    number[i / 2] = static_cast<std::uint8_t>(number[i / 2] | scales[2 * i + 1] >> 4 << i % 2 * 4);
  const float d = get_f16(number);
  for (int i = 0; i < kLargeBlock / kEight; ++i, y += kEight) {
    const auto rest = static_cast<unsigned>(four_bits(high, i));
    const unsigned scale = half_word_at(scales + i / 8 * 2) >> i % 8 / 2 * 3 & 7;
    put_shifted(y, d * static_cast<float>(2 * scale + 1), kIq1Grid[codes[i] | (rest & 7) << 8],
                (rest & 8) != 0);
  }
}

}  // namespace ft
