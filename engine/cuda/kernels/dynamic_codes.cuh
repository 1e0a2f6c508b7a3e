// 8-bit codes of numbers (engine/quant/dynamic_map.h) in two comparisons. A search would take eight dependent
// ones, with bank conflicts. Here a number's leading bits select the codes that it may have.
#pragma once
#include "engine/cuda/kernels/device.cuh"
#include "engine/quant/dynamic_map.h"

namespace ft::cuda {

// Cells of magnitudes: 64 for each power of two from 2^-22 to 1, and one for 1. The first cell includes all
// smaller magnitudes. A cell contains at most two bounds.
struct DynamicCells {
  static constexpr int kBits = 6, kPowers = 22, kCells = (kPowers << kBits) + 1;
  static constexpr unsigned kFirst = (127u - kPowers) << kBits;

  static __device__ int of(float x) {
    const int cell = static_cast<int>(bits_of(fabsf(x)) >> (23 - kBits)) - static_cast<int>(kFirst);
    return cell < 0 ? 0 : cell < kCells ? cell : kCells - 1;
  }
  // The smallest magnitude in a cell.
  static __device__ float begin(int cell) {
    return cell == 0 ? 0 : __builtin_bit_cast(float, (kFirst + static_cast<unsigned>(cell)) << (23 - kBits));
  }
};

// Tables in shared memory.
struct DynamicCodes {
  float map[256], bounds[256];                       // the last bound is infinite
  std::uint8_t starts[2][DynamicCells::kCells + 3];  // the smallest code in each cell; for negative numbers

  // Fills the tables with all threads of the block; from[256] is the map.
  __device__ void make(const float* from) {
    const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
    for (int i = thread; i < 256; i += threads) map[i] = from[i];
    __syncthreads();
    for (int i = thread; i < 256; i += threads)
      bounds[i] = i < 255 ? dynamic_bound(map, i) : __builtin_huge_valf();
    __syncthreads();
    const int each = (DynamicCells::kCells + threads - 1) / threads, first = thread * each;
    const int count = first + each < DynamicCells::kCells ? each : DynamicCells::kCells - first;
    fill(false, first, 1, count);
    fill(true, first + count - 1, -1, count);
    __syncthreads();
  }
  // Fills consecutive cells in ascending order of numbers: one search finds the first cell's code.
  __device__ void fill(bool negative, int cell, int step, int count) {
    const auto least = [&] { return negative ? -DynamicCells::begin(cell + 1) : DynamicCells::begin(cell); };
    int code = count > 0 ? dynamic_code(bounds, least()) : 0;
    for (int k = 0; k < count; ++k, cell += step) {
      while (bounds[code] < least()) ++code;
      starts[negative][cell] = static_cast<std::uint8_t>(code);
    }
  }
  // Like dynamic_code(): 0 for a NaN.
  __device__ int code_of(float x) const {
    int code = starts[x < 0][DynamicCells::of(x)];
    code += bounds[code] < x;
    code += bounds[code] < x;
    return x == x ? code : 0;
  }
};

// Computes x / by, with the rounding of a division if the quotient is not below all bounds: with the rounded
// 1 / by (Markstein 1990), or by a division if that might leave f32's range.
struct Divisor {
  float by, inverse;
  bool ordinary;
  explicit __device__ Divisor(float v)
      : by(v > 0 ? v : 1), inverse(1 / by), ordinary(0x1p-60f < by && by < 0x1p60f) {}
  __device__ float under(float x) const {
    if (!ordinary) return x / by;
    const float q = x * inverse;
    return fmaf(fmaf(-q, by, x), inverse, q);
  }
};

}  // namespace ft::cuda
