// Plain loops without branches, which the compiler vectorizes for each target.
#include "engine/cpu/convert.h"

namespace ft::cpu::FT_TARGET {
namespace {

// core's to_float(f16), with selections in place of its branches.
inline float widen(f16 v) {
  const std::uint32_t sign = std::uint32_t{v.bits & 0x8000u} << 16, rest = v.bits & 0x7fffu;
  const std::uint32_t infinite = 0x7f800000u | rest << 13, normal = (rest << 13) + 0x38000000u;
  const float small =
      __builtin_bit_cast(float, 0x38800000u | rest << 13) - __builtin_bit_cast(float, 0x38800000u);
  const std::uint32_t finite = rest >= 0x0400u ? normal : __builtin_bit_cast(std::uint32_t, small);
  return __builtin_bit_cast(float, sign | (rest >= 0x7c00u ? infinite : finite));
}
inline float widen(bf16 v) { return to_float(v); }
inline float widen(float v) { return v; }

// core's from_float, likewise.
inline void narrow(f16& y, float v) {
  const auto u = __builtin_bit_cast(std::uint32_t, v);
  const std::uint32_t a = u & 0x7fffffffu;
  const std::uint32_t small =
      __builtin_bit_cast(std::uint32_t, __builtin_bit_cast(float, a) + 0.5f) - 0x3f000000u;
  const std::uint32_t normal = (a - 0x38000000u + 0xfffu + (a >> 13 & 1u)) >> 13;
  const std::uint32_t large = a > 0x7f800000u ? 0x7e00u : 0x7c00u;
  const std::uint32_t finite = a < 0x38800000u ? small : normal;
  y.bits = static_cast<std::uint16_t>((u >> 16 & 0x8000u) | (a >= 0x477ff000u ? large : finite));
}
inline void narrow(bf16& y, float v) { from_float(y, v); }
inline void narrow(float& y, float v) { y = v; }

// A mask of all bits of the exponent; only NaN and Inf have all of them set.
constexpr std::uint32_t exponent(float) { return 0x7f800000u; }
constexpr std::uint16_t exponent(bf16) { return 0x7f80u; }
constexpr std::uint16_t exponent(f16) { return 0x7c00u; }

template <class F>
inline auto with_weight_type(DType type, const F& f) {
  if (type == DType::f32) return f(float{});
  if (type == DType::bf16) return f(bf16{});
  return f(f16{});
}

void convert(void* to, DType to_type, const void* from, DType from_type, std::int64_t n) {
  with_weight_type(to_type, [&](auto y) {
    with_weight_type(from_type, [&](auto x) {
      auto* __restrict out = static_cast<decltype(y)*>(to);
      const auto* __restrict in = static_cast<const decltype(x)*>(from);
      for (std::int64_t i = 0; i < n; ++i) narrow(out[i], widen(in[i]));
    });
  });
}

std::int64_t find_nonfinite(const void* data, DType type, std::int64_t n) {
  // one test per block, then a search in the block that fails it
  static constexpr std::int64_t kBlock = 4096;
  return with_weight_type(type, [&](auto kind) -> std::int64_t {
    using Bits = decltype(exponent(kind));
    const auto* bits = static_cast<const Bits*>(data);
    constexpr Bits kMask = exponent(decltype(kind){});
    for (std::int64_t begin = 0; begin < n; begin += kBlock) {
      const std::int64_t end = n - begin < kBlock ? n : begin + kBlock;
      Bits bad = 0;
      for (std::int64_t i = begin; i < end; ++i) bad = static_cast<Bits>(bad | ((bits[i] & kMask) == kMask));
      if (!bad) continue;
      for (std::int64_t i = begin; i < end; ++i)
        if ((bits[i] & kMask) == kMask) return i;
    }
    return -1;
  });
}

}  // namespace

extern const ConvertKernels convert_kernels;
const ConvertKernels convert_kernels{convert, find_nonfinite};

}  // namespace ft::cpu::FT_TARGET
