// Matrices in 4 bits in bitsandbytes' format (Dettmers et al., "QLoRA: efficient finetuning of quantized
// LLMs", 2023). The elements, row after row, are cut into blocks. A block keeps absmax, its largest absolute
// value. Each element keeps the code of the nearest of 16 values between -1 and 1: element = value(code) *
// absmax. Two codes share a byte, the even element in the high half; an odd last byte ends with the code of
// 0.
//
// Double quantization keeps absmax in 8 bits: absmax = map(code) * nested_absmax + offset. offset is the mean
// of all absmax, nested_absmax the largest |absmax - offset| in a block of 256 absmax, map a table of 256
// values.
//
// The CPU and CUDA use the same formulas. All bits equal bitsandbytes 0.50's.
//
// MXFP4 (OCP microscaling formats), the format of gpt-oss' files, is a third book: blocks of 32 elements
// share a power of two, stored as the exponent + 127 instead of absmax. Files have the even element in the
// low half of a byte; here it is in the high half, as in the other books.
#pragma once
#include <array>
#include <bit>
#include <cstdint>

#include "engine/core/dtype.h"
#include "engine/quant/dynamic_map.h"

namespace ft {

enum class FourBitBook : std::uint8_t { nf4, fp4, mxfp4 };
constexpr const char* name_of(FourBitBook b) {
  return b == FourBitBook::nf4 ? "nf4" : b == FourBitBook::fp4 ? "fp4" : "mxfp4";
}

struct FourBitForm {
  FourBitBook book = FourBitBook::nf4;
  std::int64_t block = 64;  // elements: a power of two from 32 to 4096
  bool nested = false;      // absmax in 8 bits, double quantization's

  // True if absmax is coded in 8 bits.
  bool has_coded_scales() const { return nested || book == FourBitBook::mxfp4; }

  std::int64_t blocks(std::int64_t elements) const { return (elements + block - 1) / block; }
  bool operator==(const FourBitForm&) const = default;
};
constexpr FourBitForm kMxfp4{FourBitBook::mxfp4, 32};
constexpr std::int64_t kNestedBlock = 256;  // absmax values that share a nested_absmax
constexpr bool is_four_bit_block(std::int64_t n) { return n >= 32 && n <= 4096 && (n & (n - 1)) == 0; }

// A book's values in ascending order, and their codes.
struct FourBitTable {
  float values[16];
  std::uint8_t codes[16];
};
// NF4: quantiles of the normal distribution. FP4: a sign and 0, 1/192, 1/6, 1/4, 1/3, 1/2, 2/3, 1. Its two
// zeros, both 0, are neighbours: the smallest values above 0 get code 8. MXFP4: a sign and 0, 1/2, 1, 3/2, 2,
// 3, 4, 6, which are not relative to absmax.
constexpr FourBitTable four_bit_table(FourBitBook book) {
  if (book == FourBitBook::nf4)
    return {{-1.0f, -0.6961928009986877f, -0.5250730514526367f, -0.39491748809814453f, -0.28444138169288635f,
             -0.18477343022823334f, -0.09105003625154495f, 0.0f, 0.07958029955625534f, 0.16093020141124725f,
             0.24611230194568634f, 0.33791524171829224f, 0.44070982933044434f, 0.5626170039176941f,
             0.7229568362236023f, 1.0f},
            {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}};
  if (book == FourBitBook::mxfp4)
    return {{-6, -4, -3, -2, -1.5f, -1, -0.5f, -0.0f, 0, 0.5f, 1, 1.5f, 2, 3, 4, 6},
            {15, 14, 13, 12, 11, 10, 9, 8, 0, 1, 2, 3, 4, 5, 6, 7}};
  return {{-1.0f, -0.6666666865348816f, -0.5f, -0.3333333432674408f, -0.25f, -0.1666666716337204f,
           -0.0052083334885537624f, 0.0f, 0.0f, 0.0052083334885537624f, 0.1666666716337204f, 0.25f,
           0.3333333432674408f, 0.5f, 0.6666666865348816f, 1.0f},
          {11, 10, 13, 12, 15, 14, 9, 0, 8, 1, 6, 7, 4, 5, 2, 3}};
}

// A book's values, indexed by code.
struct FourBitValues {
  float of[16];
};
constexpr FourBitValues four_bit_values(FourBitBook book) {
  const FourBitTable t = four_bit_table(book);
  FourBitValues v{};
  for (int i = 0; i < 16; ++i) v.of[t.codes[i]] = t.values[i];
  return v;
}

// The bounds between neighbouring values of a book. A number exactly on a bound gets the lower value.
struct FourBitBounds {
  float of[15];
};
constexpr FourBitBounds four_bit_bounds(FourBitBook book) {
  const FourBitTable t = four_bit_table(book);
  FourBitBounds b{};
  for (int i = 0; i < 15; ++i) b.of[i] = (t.values[i] + t.values[i + 1]) / 2;
  return b;
}
// Returns the index in the table of the value nearest to x = element * (1 / absmax).
FT_HD inline int four_bit_place(const FourBitBounds& bounds, float x) {
  int place = 0;
  for (const float bound : bounds.of) place += x > bound;
  return place;
}

// Returns the code of element i.
FT_HD inline int four_bit_code(const std::uint8_t* codes, std::int64_t i) {
  return i % 2 == 0 ? codes[i / 2] >> 4 : codes[i / 2] & 15;
}

// Decodes absmax from its 8-bit code. The product and the sum are rounded separately, which compilers that
// fuse the two would not do.
FT_HD inline float nested_value(float mapped, float nested_absmax, float offset) {
#ifdef __CUDA_ARCH__
  return __fadd_rn(__fmul_rn(mapped, nested_absmax), offset);
#else
  float product = mapped * nested_absmax;
  asm("" : "+x"(product));
  return product + offset;
#endif
}

// MXFP4's scale 2^(code - 127), of a code below 255.
FT_HD inline float power_of_two(std::uint8_t code) {
  return std::bit_cast<float>(code > 0 ? static_cast<std::uint32_t>(code) << 23 : std::uint32_t{1} << 22);
}

// The map of the 8-bit codes of absmax.
using NestedMap = DynamicMap;
inline const NestedMap& nested_map() { return dynamic_map(true); }
// Returns the code of the value nearest to x in [-1, 1]. x is first rounded to a multiple of 2 / 65535 above
// -1, as bitsandbytes does on CPUs. Its CUDA kernel does not round, and differs for about one x in a few
// hundred.
std::uint8_t nested_code(float x);

}  // namespace ft
