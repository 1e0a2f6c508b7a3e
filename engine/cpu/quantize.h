// Conversion of matrices to 4 bits and to FP8: kernels that are compiled for every target.
// engine/quant/four_bit.h and engine/quant/fp8.h have the formulas.
#pragma once
#include <cstdint>

#include "engine/core/dtype.h"
#include "engine/quant/four_bit.h"

namespace ft::cpu {

// A book in the form that the kernel uses.
struct FourBitPlaces {
  float bounds[15];
  std::uint8_t zero;        // the place of 0
  bool named;               // codes differ from places:
  std::uint8_t pairs[256];  // indexed by two places, 16 first + second: the byte of their codes
};
FourBitPlaces places_of(FourBitBook);

struct QuantizeKernels {
  // Encodes n elements of f32, bf16 or f16, which begin with a block; the last block may be short. Writes (n
  // + 1) / 2 bytes of codes and a scale for each block. Returns false if an element is not finite. Runs on
  // the calling thread.
  bool (*run)(std::uint8_t* codes, float* absmax, const void* x, DType, std::int64_t n, std::int64_t block,
              const FourBitPlaces&);
  // Encodes a tile of f32, bf16 or f16 in FP8, with one scale: rows of `cols` elements, ld elements apart in
  // x and in codes. Returns false if an element is not finite. Runs on the calling thread.
  bool (*fp8)(std::uint8_t* codes, float* scale, const void* x, DType, std::int64_t rows, std::int64_t cols,
              std::int64_t ld);
};

enum class Target;
const QuantizeKernels& quantize_kernels_of(Target);
const QuantizeKernels& best_quantize_kernels();

}  // namespace ft::cpu
