// GGUF's blocks of 256. Q4_K and Q5_K have 8 small blocks with a scale and a smallest value of 6 bits each.
// Q2_K has 16, with 4 bits for both. Q3_K and Q6_K have 16 with a scale of 6 and 8 bits. These are multiples
// of the f16 numbers d and dmin.
//   Q2_K: 16 bytes of scales and mins, 64 of codes, d, dmin
//   Q3_K: 32 bytes of the codes' third bits, 64 of their low two, 12 of scales, d
//   Q4_K: d, dmin, 12 bytes of scales and mins, 128 of codes
//   Q5_K: as Q4_K, with 32 bytes of fifth bits before the codes
//   Q6_K: 128 bytes of the codes' low four bits, 64 of their high two, 16 scales, d
#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "engine/formats/gguf/ggml_blocks.h"
#include "engine/formats/gguf/ggml_numbers.h"
#include "engine/formats/gguf/ggml_scale_search.h"

namespace ft {
namespace {

constexpr int kRanges = kLargeBlock / kRangeBlock, kCentred = kLargeBlock / kCentredBlock;

struct SixBits {
  int scale, min;
};

// Unpacks the scale and the smallest value of small block j from 12 bytes. For blocks 0 to 3, both are in
// bytes 0 to 7. For the other blocks, the low four bits are in bytes 8 to 11, and the high two bits in the
// top bits of bytes 0 to 7.
SixBits get_six_bits(const std::uint8_t* q, int j) {
  if (j < 4) return {q[j] & 63, q[j + 4] & 63};
  return {(q[j + 4] & 15) | (q[j - 4] >> 6 << 4), (q[j + 4] >> 4) | (q[j] >> 6 << 4)};
}
void put_six_bits(std::uint8_t* q, int j, SixBits v) {
  if (j < 4) {
    q[j] = static_cast<std::uint8_t>(v.scale);
    q[j + 4] = static_cast<std::uint8_t>(v.min);
    return;
  }
  q[j + 4] = static_cast<std::uint8_t>((v.scale & 15) | ((v.min & 15) << 4));
  q[j - 4] = static_cast<std::uint8_t>(q[j - 4] | v.scale >> 4 << 6);
  q[j] = static_cast<std::uint8_t>(q[j] | v.min >> 4 << 6);
}

// Finds the small blocks' scales and smallest values, writes them at y, and chooses the codes.
void quantize_ranges(const float* x, const RangeSearch& search, std::uint8_t* y, std::uint8_t* codes) {
  ScaleAndMin found[kRanges];
  float most_scale = 0, most_min = 0;
  for (int j = 0; j < kRanges; ++j) {
    const float* part = x + j * kRangeBlock;
    float squares = 0, weights[kRangeBlock];
    for (int i = 0; i < kRangeBlock; ++i) squares += part[i] * part[i];
    const float root = std::sqrt(squares / kRangeBlock);
    for (int i = 0; i < kRangeBlock; ++i) weights[i] = root + std::fabs(part[i]);
    found[j] = search_range(part, weights, search, codes + j * kRangeBlock);
    most_scale = std::max(most_scale, found[j].scale);
    most_min = std::max(most_min, found[j].min);
  }
  const float of_scale = most_scale > 0 ? 63 / most_scale : 0, of_min = most_min > 0 ? 63 / most_min : 0;
  for (int j = 0; j < kRanges; ++j)
    put_six_bits(
        y + 4, j,
        {std::min(63, static_cast<int>(static_cast<std::uint8_t>(nearest(of_scale * found[j].scale)))),
         std::min(63, static_cast<int>(static_cast<std::uint8_t>(nearest(of_min * found[j].min))))});
  const float d = put_f16(y, most_scale / 63), dmin = put_f16(y + 2, most_min / 63);
  for (int j = 0; j < kRanges; ++j) {
    const SixBits six = get_six_bits(y + 4, j);
    const float scale = d * static_cast<float>(six.scale), min = dmin * static_cast<float>(six.min);
    if (scale == 0) continue;
    for (int i = j * kRangeBlock; i < (j + 1) * kRangeBlock; ++i)
      codes[i] = static_cast<std::uint8_t>(std::clamp(nearest((x[i] + min) / scale), 0, search.most));
  }
}

// code(j, i): code i of small block j.
template <class Code>
void dequantize_ranges(const std::uint8_t* x, float* y, const Code& code) {
  const float d = get_f16(x), dmin = get_f16(x + 2);
  for (int j = 0; j < kRanges; ++j) {
    const SixBits six = get_six_bits(x + 4, j);
    const float scale = d * static_cast<float>(six.scale), min = dmin * static_cast<float>(six.min);
    for (int i = 0; i < kRangeBlock; ++i)
      y[j * kRangeBlock + i] = scale * static_cast<float>(code(j, i)) - min;
  }
}

// Packs the codes' low four bits. Small blocks 2 k and 2 k + 1 share bytes.
void put_low_bits(const std::uint8_t* codes, std::uint8_t* y) {
  for (int k = 0; k < kRanges / 2; ++k)
    for (int i = 0; i < kRangeBlock; ++i) {
      const std::uint8_t* two = codes + 2 * k * kRangeBlock + i;
      y[k * kRangeBlock + i] = static_cast<std::uint8_t>((two[0] & 15) | ((two[kRangeBlock] & 15) << 4));
    }
}
int low_bits(const std::uint8_t* x, int j, int i) {
  const int both = x[j / 2 * kRangeBlock + i];
  return j % 2 == 0 ? both & 15 : both >> 4;
}

// Two bits of code i of Q2_K and Q3_K. Four runs of 32 codes share 32 bytes.
int two_bits(const std::uint8_t* x, int i) { return x[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3; }

// Scale j of Q3_K. Its low four bits are in the first eight bytes, its high two in the last four.
int three_bit_scale(const std::uint8_t* x, int j) {
  const int low = j < 8 ? x[j] & 15 : x[j - 8] >> 4, high = x[8 + j % 4] >> (j / 4 * 2) & 3;
  return (low | high << 4) - 32;
}

// The position of code i of Q6_K. Four runs of 32 codes share 64 bytes of low and 32 of high bits.
struct SixBitPlace {
  int low, low_shift, high, high_shift;
  explicit SixBitPlace(int i) {
    const int half = i / 128, lot = i % 128 / 32, at = i % 32;
    low = half * 64 + lot % 2 * 32 + at;
    low_shift = lot / 2 * 4;
    high = half * 32 + at;
    high_shift = lot * 2;
  }
};

}  // namespace

void quantize_q4_k(const float* x, std::uint8_t* y) {
  std::uint8_t codes[kLargeBlock];
  quantize_ranges(x, {.most = 15, .first = -1, .steps = 20}, y, codes);
  put_low_bits(codes, y + 16);
}

void quantize_q5_k(const float* x, std::uint8_t* y) {
  std::uint8_t codes[kLargeBlock];
  quantize_ranges(x, {.most = 31, .first = -0.5f, .steps = 15}, y, codes);
  std::fill_n(y + 16, kRangeBlock, std::uint8_t{0});
  for (int i = 0; i < kLargeBlock; ++i)
    y[16 + i % kRangeBlock] =
        static_cast<std::uint8_t>(y[16 + i % kRangeBlock] | (codes[i] >> 4) << i / kRangeBlock);
  put_low_bits(codes, y + 16 + kRangeBlock);
}

void quantize_q6_k(const float* x, std::uint8_t* y) {
  std::uint8_t codes[kLargeBlock], *scales = y + 192;
  float found[kCentred], most = 0;
  for (int j = 0; j < kCentred; ++j) {
    found[j] = search_centred(x + j * kCentredBlock, codes + j * kCentredBlock);
    if (std::fabs(found[j]) > std::fabs(most)) most = found[j];
  }
  std::fill_n(y, 210, std::uint8_t{0});
  if (std::fabs(most) < kGgmlSmallest) return;
  const float of_scale = -128.0f / most;
  const float d = put_f16(y + 208, 1 / of_scale);
  for (int j = 0; j < kCentred; ++j) {
    const auto scale = static_cast<std::int8_t>(std::min(127, nearest(of_scale * found[j])));
    scales[j] = static_cast<std::uint8_t>(scale);
    const float step = d * static_cast<float>(scale);
    if (step == 0) continue;
    for (int i = j * kCentredBlock; i < (j + 1) * kCentredBlock; ++i)
      codes[i] = static_cast<std::uint8_t>(std::clamp(nearest(x[i] / step), -32, 31) + 32);
  }
  for (int i = 0; i < kLargeBlock; ++i) {
    const SixBitPlace at(i);
    y[at.low] = static_cast<std::uint8_t>(y[at.low] | (codes[i] & 15) << at.low_shift);
    y[128 + at.high] = static_cast<std::uint8_t>(y[128 + at.high] | (codes[i] >> 4) << at.high_shift);
  }
}

void dequantize_q2_k(const std::uint8_t* x, float* y) {
  const float d = get_f16(x + 80), dmin = get_f16(x + 82);
  for (int j = 0; j < kCentred; ++j) {
    const float scale = d * static_cast<float>(x[j] & 15), min = dmin * static_cast<float>(x[j] >> 4);
    for (int i = j * kCentredBlock; i < (j + 1) * kCentredBlock; ++i)
      y[i] = scale * static_cast<float>(two_bits(x + 16, i)) - min;
  }
}

// If a code's third bit is not set, the value is lower by 4.
void dequantize_q3_k(const std::uint8_t* x, float* y) {
  const float d = get_f16(x + 108);
  for (int j = 0; j < kCentred; ++j) {
    const float scale = d * static_cast<float>(three_bit_scale(x + 96, j));
    for (int i = j * kCentredBlock; i < (j + 1) * kCentredBlock; ++i) {
      const int third = x[i % 32] >> (i / 32) & 1;
      y[i] = scale * static_cast<float>(two_bits(x + 32, i) - (third == 0 ? 4 : 0));
    }
  }
}

void dequantize_q4_k(const std::uint8_t* x, float* y) {
  dequantize_ranges(x, y, [&](int j, int i) { return low_bits(x + 16, j, i); });
}

void dequantize_q5_k(const std::uint8_t* x, float* y) {
  dequantize_ranges(
      x, y, [&](int j, int i) { return low_bits(x + 16 + kRangeBlock, j, i) | (x[16 + i] >> j & 1) << 4; });
}

void dequantize_q6_k(const std::uint8_t* x, float* y) {
  const float d = get_f16(x + 208);
  for (int i = 0; i < kLargeBlock; ++i) {
    const SixBitPlace at(i);
    const int code = (x[at.low] >> at.low_shift & 15) | (x[128 + at.high] >> at.high_shift & 3) << 4;
    const auto scale = static_cast<std::int8_t>(x[192 + i / kCentredBlock]);
    y[i] = d * static_cast<float>(scale) * static_cast<float>(code - 32);
  }
}

}  // namespace ft
