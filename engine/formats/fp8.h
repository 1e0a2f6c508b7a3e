// Quantizes and dequantizes matrices of FP8 on the host. The formulas are in engine/quant/fp8.h.
#pragma once
#include <span>
#include <vector>

#include "engine/formats/four_bit.h"
#include "engine/quant/fp8.h"

namespace ft {

struct Fp8Data {
  Fp8Scheme scheme;
  std::int64_t rows = 0, cols = 0;
  std::vector<std::uint8_t> codes;  // bits of e4m3
  std::vector<float> scales;
};

// Quantizes a matrix of f32, bf16 or f16 that `read` provides, as in four_bit.h; the scheme is kFp8Channels
// or kFp8Blocks. Throws InternalError if an element is not finite. Uses several threads.
Fp8Data quantize_fp8(std::int64_t rows, std::int64_t cols, DType type, Fp8Scheme scheme,
                     const ReadElements& read);
// Writes elements [first, first + y.size()) to y, in f32.
void dequantize(std::span<float> y, const Fp8Data&, std::int64_t first = 0);

}  // namespace ft
