// Plain loops, which the compiler vectorizes for each target: a block is widened and measured, and then each
// element counts the bounds below it. This gives the bits of the formulas in engine/quant/four_bit.h, also
// for elements exactly between two values and for scales beyond the largest float.
#include "engine/cpu/quantize.h"

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

}  // namespace

extern const QuantizeKernels quantize_kernels;
const QuantizeKernels quantize_kernels{run};

}  // namespace ft::cpu::FT_TARGET
