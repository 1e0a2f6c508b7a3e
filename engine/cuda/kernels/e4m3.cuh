// The conversion to e4m3 of compute capability 9.0. tests/cuda_on_cpu has the formula of quant/fp8.h.
#pragma once
#include "engine/cuda/kernels/device.cuh"
#include "engine/quant/fp8.h"

namespace ft::cuda {

// Codes of two numbers, the first in the low byte: rounded to the nearest, ties to even, and saturated. The
// same codes as from_float's, except for the sign of a NaN.
#ifdef __CUDACC__
__device__ inline unsigned e4m3_pair(float low, float high) {
  unsigned short codes;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(codes) : "f"(high), "f"(low));
  return codes;
}
#else
inline unsigned e4m3_pair(float low, float high) {
  e4m3 first, second;
  from_float(first, low);
  from_float(second, high);
  return first.bits | unsigned{second.bits} << 8;
}
#endif

}  // namespace ft::cuda
