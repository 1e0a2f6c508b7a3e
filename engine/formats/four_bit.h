// Quantizes and dequantizes matrices on the host. The formulas are in engine/quant/four_bit.h.
#pragma once
#include <functional>
#include <span>
#include <vector>

#include "engine/core/tensor.h"
#include "engine/quant/four_bit.h"

namespace ft {

// A matrix in 4 bits. absmax holds the scales; with double quantization the three members after it do.
struct FourBitData {
  FourBitForm form;
  std::int64_t elements = 0;
  std::vector<std::uint8_t> codes;
  std::vector<float> absmax;
  std::vector<std::uint8_t> absmax_codes;
  std::vector<float> nested_absmax;
  float nested_offset = 0;
};

// Quantizes finite values; throws InternalError if one is not. Uses several threads.
FourBitData quantize(std::span<const float> x, FourBitForm form);
// Quantizes a matrix that `read` provides: it copies elements [first, first + to.numel()), of type f32, bf16
// or f16, into host memory, and is called from several threads at once. Only a few MiB are in memory at a
// time.
using ReadElements = std::function<void(const Tensor& to, std::int64_t first)>;
FourBitData quantize(std::int64_t elements, DType type, FourBitForm form, const ReadElements& read);
// Replaces absmax by 8-bit codes around `offset`.
void quantize_absmax(FourBitData&, float offset);

// Returns a block's absmax, decoded if it is in 8 bits.
float absmax_of(const FourBitData&, std::int64_t block);
// Writes elements [first, first + y.size()) to y.
void dequantize(std::span<float> y, const FourBitData&, std::int64_t first = 0);

}  // namespace ft
