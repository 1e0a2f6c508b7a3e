// Plain loops, which the compiler vectorizes for each target. In 4 bits a block is widened and measured, and
// then each element counts the bounds below it. This gives the bits of the formulas in
// engine/quant/four_bit.h, also for elements exactly between two values and for scales beyond the largest
// float. In FP8 a tile is measured, and its elements are divided and rounded as in engine/quant/fp8.h.
#include "engine/cpu/quantize.h"
#include "engine/quant/fp8.h"

namespace ft::cpu::FT_TARGET {
namespace {

constexpr std::int64_t kAtOnce = 64;  // elements; a block is a multiple of it, or half of it

template <class T>
inline void widen(float* to, const T* from, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) to[i] = to_float(from[i]);
  for (std::int64_t i = n; i < kAtOnce; ++i) to[i] = 0;
}

// Largest magnitude of x, as bits: floats without a sign have the order of their bits; Inf and NaN come last.
template <class T>
inline std::uint32_t largest_bits(const T* x, std::int64_t n) {
  std::uint32_t most = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const std::uint32_t bits = __builtin_bit_cast(std::uint32_t, to_float(x[i])) & 0x7fffffffu;
    most = bits > most ? bits : most;
  }
  return most;
}

inline void quantize_some(std::uint8_t* codes, const float* x, std::int64_t n, float scale,
                          const FourBitPlaces& places) {
  std::uint8_t place[kAtOnce];
  for (std::int64_t i = 0; i < kAtOnce; ++i) {
    const float v = x[i] * scale;
    std::int32_t below = 0;
    for (int b = 0; b < 15; ++b) below += v > places.bounds[b];
    place[i] = static_cast<std::uint8_t>(below);
  }
  for (std::int64_t i = n; i < kAtOnce; ++i) place[i] = places.zero;
  std::uint8_t pairs[kAtOnce / 2];
  for (std::int64_t i = 0; i < kAtOnce / 2; ++i)
    pairs[i] = static_cast<std::uint8_t>(place[2 * i] << 4 | place[2 * i + 1]);
  if (places.named)
    for (std::uint8_t& p : pairs) p = places.pairs[p];
  __builtin_memcpy(codes, pairs, static_cast<std::size_t>((n + 1) / 2));
}

template <class T>
bool quantize(std::uint8_t* codes, float* absmax, const T* x, std::int64_t n, std::int64_t block,
              const FourBitPlaces& places) {
  std::uint32_t most = 0;
  float some[kAtOnce];
  for (std::int64_t first = 0; first < n; first += block) {
    const std::int64_t end = n - first < block ? n : first + block;
    const std::uint32_t bits = largest_bits(x + first, end - first);
    const float largest = __builtin_bit_cast(float, bits), scale = largest > 0 ? 1 / largest : 0;
    std::int64_t i = first;
    for (; i + kAtOnce <= end; i += kAtOnce) {
      widen(some, x + i, kAtOnce);
      quantize_some(codes + i / 2, some, kAtOnce, scale, places);
    }
    if (i < end) {
      widen(some, x + i, end - i);
      quantize_some(codes + i / 2, some, end - i, scale, places);
    }
    most = bits > most ? bits : most;
    *absmax++ = largest;
  }
  return most < 0x7f800000u;
}

bool run(std::uint8_t* codes, float* absmax, const void* x, DType type, std::int64_t n, std::int64_t block,
         const FourBitPlaces& places) {
  if (type == DType::f32) return quantize(codes, absmax, static_cast<const float*>(x), n, block, places);
  if (type == DType::bf16) return quantize(codes, absmax, static_cast<const bf16*>(x), n, block, places);
  return quantize(codes, absmax, static_cast<const f16*>(x), n, block, places);
}

// The codes of e4m3 as from_float has them, without NaN, chosen and not branched to.
inline void encode(std::uint8_t* codes, const float* x, std::int64_t n, float scale) {
  for (std::int64_t i = 0; i < n; ++i) {
    const auto u = __builtin_bit_cast(std::uint32_t, x[i] / scale);
    const std::uint32_t a = u & 0x7fffffffu;
    const std::uint32_t small =
        __builtin_bit_cast(std::uint32_t, __builtin_bit_cast(float, a) + 16384.0f) - 0x46800000u;
    const std::uint32_t normal = (a - 0x3c000000u + 0x7ffffu + (a >> 20 & 1u)) >> 20;
    const std::uint32_t code = a < 0x3c800000u ? small : a >= 0x43e00000u ? 0x7eu : normal;
    codes[i] = static_cast<std::uint8_t>((u >> 24 & 0x80u) | code);
  }
}

template <class T>
bool quantize_tile(std::uint8_t* codes, float* scale, const T* x, std::int64_t rows, std::int64_t cols,
                   std::int64_t ld) {
  std::uint32_t most = 0;
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::uint32_t bits = largest_bits(x + r * ld, cols);
    most = bits > most ? bits : most;
  }
  *scale = fp8_scale(__builtin_bit_cast(float, most));
  float some[kAtOnce];
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < cols; c += kAtOnce) {
      const std::int64_t n = cols - c < kAtOnce ? cols - c : kAtOnce;
      widen(some, x + r * ld + c, n);
      if (n == kAtOnce)
        encode(codes + r * ld + c, some, kAtOnce, *scale);
      else
        encode(codes + r * ld + c, some, n, *scale);
    }
  return most < 0x7f800000u;
}

bool fp8(std::uint8_t* codes, float* scale, const void* x, DType type, std::int64_t rows, std::int64_t cols,
         std::int64_t ld) {
  if (type == DType::f32) return quantize_tile(codes, scale, static_cast<const float*>(x), rows, cols, ld);
  if (type == DType::bf16) return quantize_tile(codes, scale, static_cast<const bf16*>(x), rows, cols, ld);
  return quantize_tile(codes, scale, static_cast<const f16*>(x), rows, cols, ld);
}

}  // namespace

extern const QuantizeKernels quantize_kernels;
const QuantizeKernels quantize_kernels{run, fp8};

}  // namespace ft::cpu::FT_TARGET
