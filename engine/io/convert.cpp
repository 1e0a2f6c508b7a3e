#include "engine/io/convert.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "engine/core/error.h"

namespace ft {
namespace {

template <class F>
auto with_weight_type(DType type, const F& f) {
  switch (type) {
    case DType::f32:
      return f(float{});
    case DType::bf16:
      return f(bf16{});
    case DType::f16:
      return f(f16{});
    default:
      throw InternalError("not a type of weights");
  }
}

// core's to_float(f16) with its branches as selections.
float widen(f16 v) {
  const std::uint32_t sign = std::uint32_t{v.bits & 0x8000u} << 16, rest = v.bits & 0x7fffu;
  const std::uint32_t infinite = 0x7f800000u | rest << 13, normal = (rest << 13) + 0x38000000u;
  const float small = std::bit_cast<float>(0x38800000u | rest << 13) - std::bit_cast<float>(0x38800000u);
  const std::uint32_t finite = rest >= 0x0400u ? normal : std::bit_cast<std::uint32_t>(small);
  return std::bit_cast<float>(sign | (rest >= 0x7c00u ? infinite : finite));
}
float widen(bf16 v) { return to_float(v); }
float widen(float v) { return v; }

// And core's from_float.
void narrow(f16& y, float v) {
  const auto u = std::bit_cast<std::uint32_t>(v);
  const std::uint32_t a = u & 0x7fffffffu;
  const std::uint32_t small = std::bit_cast<std::uint32_t>(std::bit_cast<float>(a) + 0.5f) - 0x3f000000u;
  const std::uint32_t normal = (a - 0x38000000u + 0xfffu + (a >> 13 & 1u)) >> 13;
  const std::uint32_t large = a > 0x7f800000u ? 0x7e00u : 0x7c00u;
  const std::uint32_t finite = a < 0x38800000u ? small : normal;
  y.bits = static_cast<std::uint16_t>((u >> 16 & 0x8000u) | (a >= 0x477ff000u ? large : finite));
}
void narrow(bf16& y, float v) { from_float(y, v); }
void narrow(float& y, float v) { y = v; }

// All bits of the exponent, which only NaN and Inf have set.
constexpr std::uint32_t exponent(float) { return 0x7f800000u; }
constexpr std::uint16_t exponent(bf16) { return 0x7f80u; }
constexpr std::uint16_t exponent(f16) { return 0x7c00u; }

}  // namespace

void convert(void* to, DType to_type, const void* from, DType from_type, std::int64_t n) {
  if (n == 0) return;
  if (to_type == from_type) {
    std::memcpy(to, from, static_cast<std::size_t>(n * size_of(to_type)));
    return;
  }
  with_weight_type(to_type, [&](auto y) {
    with_weight_type(from_type, [&](auto x) {
      auto* __restrict out = static_cast<decltype(y)*>(to);
      const auto* __restrict in = static_cast<const decltype(x)*>(from);
      for (std::int64_t i = 0; i < n; ++i) narrow(out[i], widen(in[i]));
    });
  });
}

std::int64_t find_nonfinite(const void* data, DType type, std::int64_t n) {
  static constexpr std::int64_t kBlock = 4096;  // one test a block, then a search in the one that fails it
  return with_weight_type(type, [&](auto kind) -> std::int64_t {
    using Bits = decltype(exponent(kind));
    const auto* bits = static_cast<const Bits*>(data);
    constexpr Bits kMask = exponent(decltype(kind){});
    for (std::int64_t begin = 0; begin < n; begin += kBlock) {
      const std::int64_t end = std::min(n, begin + kBlock);
      Bits bad = 0;
      for (std::int64_t i = begin; i < end; ++i) bad = static_cast<Bits>(bad | ((bits[i] & kMask) == kMask));
      if (!bad) continue;
      for (std::int64_t i = begin; i < end; ++i)
        if ((bits[i] & kMask) == kMask) return i;
    }
    return -1;
  });
}

}  // namespace ft
