// Blocks of 32 neighbours of a row in 4 or 8 bits, as GGUF's types Q4_0 and Q8_0 have them (llama.cpp,
// ggml/src/ggml-quants.c, the `_ref` functions). A block has a scale d, which is stored in float16, and each
// element has a whole number, its code:
//   Q4_0   d = m / -8, m the element of the largest magnitude, the first of equals;
//          code = min(15, x (1 / d) + 8.5 without its fraction);  element = (code - 8) f16(d)
//   Q8_0   d = |m| / 127;
//          code = x (1 / d) to the nearest, halves away from 0;   element = code f16(d)
// 1 / d is 0 if d is 0, or so small that 1 / d is infinite.
//
// The writer of GGUF files, the CPU and CUDA share these formulas and get the same codes. Every operation is
// rounded to f32 separately: sources that use them are compiled without fused multiply-adds.
#pragma once
#include "engine/core/dtype.h"
#include "engine/core/words.h"

namespace ft {

constexpr int kBlockOfCodes = 32;  // elements

enum class BlockFormat : std::uint8_t { q4_0, q8_0 };
constexpr auto words(BlockFormat) {
  using enum BlockFormat;
  return to_words<BlockFormat>({{q4_0, "q4_0"}, {q8_0, "q8_0"}});
}

// 1 / d.
FT_HD inline float block_inverse(float d) {
  const float inverse = 1 / d;
  return inverse - inverse == 0 ? inverse : 0;
}
// d, rounded to float16.
FT_HD inline float stored_scale(float d) {
  f16 stored{};
  from_float(stored, d);
  return to_float(stored);
}

// Codes around zero in `bits` bits: Q4_0, and GGUF's Q5_0. quotient: x (1 / d).
template <int bits>
struct CentredCodes {
  static constexpr int kZero = 1 << (bits - 1);
  FT_HD static inline float scale(float furthest) { return furthest / -kZero; }
  FT_HD static inline int code(float quotient) {
    const int code = static_cast<int>(quotient + (kZero + 0.5f));
    return code < 2 * kZero - 1 ? code : 2 * kZero - 1;
  }
  FT_HD static inline float value(int code, float d) { return static_cast<float>(code - kZero) * d; }
};

// Q8_0.
struct SignedBytes {
  FT_HD static inline float scale(float furthest) { return (furthest < 0 ? -furthest : furthest) / 127; }
  FT_HD static inline int code(float quotient) {
    const int whole = static_cast<int>(quotient);
    const float rest = quotient - static_cast<float>(whole);
    return whole + (rest >= 0.5f ? 1 : 0) - (rest <= -0.5f ? 1 : 0);
  }
  FT_HD static inline float value(int code, float d) { return static_cast<float>(code) * d; }
};

// Calls f(codes) with the format's functions, on the host.
inline void with_codes(BlockFormat format, const auto& f) {
  if (format == BlockFormat::q4_0)
    f(CentredCodes<4>{});
  else
    f(SignedBytes{});
}

}  // namespace ft
