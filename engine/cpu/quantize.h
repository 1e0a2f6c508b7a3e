// Matrices into 4 bits: a kernel that is compiled for every target. engine/core/four_bit.h has the formulas.
#pragma once
#include <cstdint>

#include "engine/core/dtype.h"
#include "engine/core/four_bit.h"

namespace ft::cpu {

// A book as the kernel takes it.
struct FourBitPlaces {
  float bounds[15];
  std::uint8_t zero;        // the place of 0
  bool named;               // codes are other numbers than places:
  std::uint8_t pairs[256];  // by two places, 16 first + second: the byte of their codes
};
FourBitPlaces places_of(FourBitBook);

struct QuantizeKernels {
  // n elements of f32, bf16 or f16, which begin with a block; the last block may be short. (n + 1) / 2 bytes
  // of codes, a scale for each block. False when an element is not finite. On the calling thread.
  bool (*run)(std::uint8_t* codes, float* absmax, const void* x, DType, std::int64_t n, std::int64_t block,
              const FourBitPlaces&);
};

enum class Target;
const QuantizeKernels& quantize_kernels_of(Target);
const QuantizeKernels& best_quantize_kernels();

}  // namespace ft::cpu
