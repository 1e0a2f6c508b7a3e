// Quantizes and dequantizes whole matrices on the host; the formulas are in engine/core/four_bit.h.
#pragma once
#include <functional>
#include <span>
#include <vector>

#include "engine/core/four_bit.h"
#include "engine/core/tensor.h"

namespace ft {

// A matrix in 4 bits. Without double quantization absmax holds the scales; with it the other three do.
struct FourBitData {
  FourBitForm form;
  std::int64_t elements = 0;
  std::vector<std::uint8_t> codes;
  std::vector<float> absmax;
  std::vector<std::uint8_t> absmax_codes;
  std::vector<float> nested_absmax;
  float nested_offset = 0;
};

// Finite values only; InternalError otherwise. Uses several threads.
FourBitData quantize(std::span<const float> x, FourBitForm form);
// The same of what `read` brings: elements [first, first + to.numel()) of a matrix of f32, bf16 or f16 into
// host memory, from several threads at once. No more than some MiB of them are in memory.
using ReadElements = std::function<void(const Tensor& to, std::int64_t first)>;
FourBitData quantize(std::int64_t elements, DType type, FourBitForm form, const ReadElements& read);
// The absmax of a matrix in 8 bits around `offset`, which replace them.
void quantize_absmax(FourBitData&, float offset);

// A block's absmax, also where they are in 8 bits.
float absmax_of(const FourBitData&, std::int64_t block);
// Elements [first, first + y.size()), in f32.
void dequantize(std::span<float> y, const FourBitData&, std::int64_t first = 0);

}  // namespace ft
