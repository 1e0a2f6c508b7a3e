// Element types, and conversions of the 16-bit formats for both CPU loops and CUDA kernels. On the CPU they
// are always inlined and call no function of the standard library: kernels are compiled once per target, and
// the linker would merge a function with external linkage across the targets.
#pragma once
#include <cstdint>

namespace ft {

#ifdef __CUDACC__
  #define FT_HD __host__ __device__
#else
  #define FT_HD [[gnu::always_inline]]
#endif

enum class DType : std::uint8_t { f32, bf16, f16, f64, i32, u8 };

constexpr std::int64_t size_of(DType t) {
  switch (t) {
    case DType::f64:
      return 8;
    case DType::f32:
    case DType::i32:
      return 4;
    case DType::bf16:
    case DType::f16:
      return 2;
    case DType::u8:
      return 1;
  }
  return 0;
}

// torch's names: float32, bfloat16, ...
constexpr const char* name_of(DType t) {
  switch (t) {
    case DType::f64:
      return "float64";
    case DType::f32:
      return "float32";
    case DType::i32:
      return "int32";
    case DType::bf16:
      return "bfloat16";
    case DType::f16:
      return "float16";
    case DType::u8:
      return "uint8";
  }
  return "";
}

struct bf16 {
  std::uint16_t bits;
};
struct f16 {
  std::uint16_t bits;
};

FT_HD inline float to_float(float v) { return v; }
FT_HD inline float to_float(bf16 v) { return __builtin_bit_cast(float, std::uint32_t{v.bits} << 16); }
// IEEE 754 binary16 by shifting into binary32's fields; subnormals through a float subtraction.
FT_HD inline float to_float(f16 v) {
  const std::uint32_t sign = std::uint32_t{v.bits & 0x8000u} << 16, rest = v.bits & 0x7fffu;
  if (rest >= 0x7c00u) return __builtin_bit_cast(float, sign | 0x7f800000u | (rest & 0x3ffu) << 13);
  if (rest >= 0x0400u) return __builtin_bit_cast(float, sign | ((rest << 13) + 0x38000000u));
  const float small =
      __builtin_bit_cast(float, 0x38800000u | rest << 13) - __builtin_bit_cast(float, 0x38800000u);
  return __builtin_bit_cast(float, sign | __builtin_bit_cast(std::uint32_t, small));
}

// Rounds to the nearest value, ties to even. A NaN stays a NaN.
FT_HD inline void from_float(float& y, float v) { y = v; }
FT_HD inline void from_float(bf16& y, float v) {
  const auto u = __builtin_bit_cast(std::uint32_t, v);
  const bool nan = (u & 0x7fffffffu) > 0x7f800000u;
  y.bits = nan ? static_cast<std::uint16_t>((u >> 16) | 0x40u)
               : static_cast<std::uint16_t>((u + 0x7fffu + (u >> 16 & 1u)) >> 16);
}
FT_HD inline void from_float(f16& y, float v) {
  const auto u = __builtin_bit_cast(std::uint32_t, v);
  const std::uint32_t sign = u >> 16 & 0x8000u, a = u & 0x7fffffffu;
  std::uint32_t h = 0;
  if (a > 0x7f800000u)
    h = 0x7e00u;  // NaN
  else if (a >= 0x477ff000u)
    h = 0x7c00u;             // rounds to infinity
  else if (a < 0x38800000u)  // subnormal: units of 2^-24
    h = __builtin_bit_cast(std::uint32_t, __builtin_bit_cast(float, a) + 0.5f) - 0x3f000000u;
  else
    h = (a - 0x38000000u + 0xfffu + (a >> 13 & 1u)) >> 13;
  y.bits = static_cast<std::uint16_t>(sign | h);
}

template <class T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::f32;
};
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::f64;
};
template <>
struct DTypeOf<bf16> {
  static constexpr DType value = DType::bf16;
};
template <>
struct DTypeOf<f16> {
  static constexpr DType value = DType::f16;
};
template <>
struct DTypeOf<std::int32_t> {
  static constexpr DType value = DType::i32;
};
template <>
struct DTypeOf<std::uint8_t> {
  static constexpr DType value = DType::u8;
};

}  // namespace ft
