// Decodes a part of a matrix in FP8 to a dense matrix of f32, bf16 or f16: each element is value(code) *
// scale, rounded once.
#include "engine/cuda/kernels/device.cuh"
#include "engine/cuda/kernels/kernels.h"

namespace ft::cuda {
namespace {

constexpr int kCodes = 16;  // of a 16-byte load

__device__ inline float scale_of(const Fp8Source& s, i64 row, i64 column) {
  return s.scales[(row >> s.row_bits) * s.scale_cols + (column >> s.col_bits)];
}

// Values of four codes. As f16, which has the same fields with one more bit of exponent, they are 2^-8 times
// too small; both factors are exact.
__device__ inline void decode(float* v, std::uint32_t word, float scale) {
  for (int odd = 0; odd < 2; ++odd) {
    const std::uint32_t pair = word >> 8 * odd;
    float both[2];
    widen_pair(f16{}, both, (pair & 0x00800080u) << 8 | (pair & 0x007f007fu) << 7);
    v[odd] = both[0] * 256 * scale;
    v[2 + odd] = both[1] * 256 * scale;
  }
}

// Each thread decodes 16 codes, all in one tile, with one load.
template <class T>
__global__ void __launch_bounds__(256) dequantize_wide(Rows<T> y, i64 rows, i64 cols, Fp8Source s) {
  const i64 column = (static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x) * kCodes;
  if (column >= cols) return;
  for (i64 row = blockIdx.y; row < rows; row += gridDim.y) {
    const i64 from = s.first_row + row, at = s.first_col + column;
    const uint4 codes = *reinterpret_cast<const uint4*>(s.codes + from * s.cols + at);
    const float scale = scale_of(s, from, at);
    const std::uint32_t words[] = {codes.x, codes.y, codes.z, codes.w};
    for (int half = 0; half < kCodes / kPack; ++half) {
      float v[kPack];
      decode(v, words[2 * half], scale);
      decode(v + 4, words[2 * half + 1], scale);
      store(y.at(row, column + half * kPack), v, {kPack, true});
    }
  }
}

// Each thread decodes a pack at any place; its elements may have several scales.
template <class T>
__global__ void __launch_bounds__(256) dequantize_packs(Rows<T> y, i64 rows, i64 cols, Fp8Source s) {
  const i64 column = (static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x) * kPack;
  if (column >= cols) return;
  const Pack pack = pack_at(column, cols, false);
  for (i64 row = blockIdx.y; row < rows; row += gridDim.y) {
    const i64 from = s.first_row + row, at = s.first_col + column;
    float v[kPack];
    for (int j = 0; j < kPack; ++j)
      v[j] = j < pack.count ? to_float(e4m3{s.codes[from * s.cols + at + j]}) * scale_of(s, from, at + j) : 0;
    store(y.at(row, column), v, pack);
  }
}

// True if all loads are of 16 bytes at multiples of 16, and all stores too.
bool loads_are_wide(const View& y, const Fp8Source& s) {
  return wide(y) && y.cols % kCodes == 0 && s.first_col % kCodes == 0 && s.cols % kCodes == 0 &&
         reinterpret_cast<std::uintptr_t>(s.codes) % kCodes == 0;
}

}  // namespace

void dequantize(cudaStream_t stream, const View& y, const Fp8Source& s) {
  if (y.rows == 0 || y.cols == 0) return;
  with_float(y.type, [&](auto t) {
    using T = decltype(t);
    const auto run = [&](auto kernel, i64 each) {  // elements of a thread
      const unsigned threads = at_most(ceil_div(ceil_div(y.cols, each), 32) * 32, 256);
      launch(
          "dequantize",
          {stream, dim3(static_cast<unsigned>(ceil_div(y.cols, each * threads)), at_most(y.rows, kMostGridY)),
           threads},
          kernel, Rows<T>(y), y.rows, y.cols, s);
    };
    if (loads_are_wide(y, s))
      run(dequantize_wide<T>, kCodes);
    else
      run(dequantize_packs<T>, kPack);
  });
}

}  // namespace ft::cuda
