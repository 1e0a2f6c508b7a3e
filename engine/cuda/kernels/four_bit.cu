// A part of a matrix in 4 bits as a dense matrix of f32, bf16 or f16, each element value(code) * absmax,
// rounded once.
#include <bit>

#include "engine/cuda/kernels/each_pack.cuh"
#include "engine/cuda/kernels/kernels.h"

namespace ft::cuda {
namespace {

struct Shared {
  float values[16];
};

struct Extent {
  i64 rows, cols;
  bool wide;  // rows of y begin at multiples of 16 bytes, and of the matrix at multiples of 4 bytes of codes
  int block_bits;  // a block has 2^block_bits elements: 64-bit divisions would take longer than the rest
};

__device__ inline float absmax_of(const FourBitSource& s, i64 block) {
  if (s.absmax) return s.absmax[block];
  return nested_value(s.map[s.absmax_codes[block]], s.nested_absmax[block / kNestedBlock], *s.nested_offset);
}

template <class T>
__global__ void __launch_bounds__(256) dequantize_part(Rows<T> y, Extent e, FourBitSource s) {
  float* values = shared_memory<Shared>().values;
  if (threadIdx.x < 16) values[threadIdx.x] = s.values.of[threadIdx.x];
  __syncthreads();
  const i64 column = (static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x) * kPack;
  if (column >= e.cols) return;
  const Pack pack = pack_at(column, e.cols, e.wide);
  for (i64 row = blockIdx.y; row < e.rows; row += gridDim.y) {
    const i64 first = (s.first_row + row) * s.cols + s.first_col + column;  // the element's number
    float v[kPack];
    if (pack.wide && pack.count == kPack) {  // one block, four bytes
      const float absmax = absmax_of(s, first >> e.block_bits);
      const std::uint32_t word = *reinterpret_cast<const std::uint32_t*>(s.codes + first / 2);
      for (int j = 0; j < kPack; ++j) {
        const std::uint32_t byte = word >> j / 2 * 8 & 0xff;
        v[j] = values[j % 2 == 0 ? byte >> 4 : byte & 15] * absmax;
      }
    } else {
      for (int j = 0; j < kPack; ++j)  // of a number that is known, so that v stays in registers
        v[j] = j < pack.count
                   ? values[four_bit_code(s.codes, first + j)] * absmax_of(s, (first + j) >> e.block_bits)
                   : 0;
    }
    store(y.at(row, column), v, pack);
  }
}

}  // namespace

void dequantize(cudaStream_t stream, const View& y, const FourBitSource& s) {
  if (y.rows == 0 || y.cols == 0) return;
  with_float(y.type, [&](auto t) {
    using T = decltype(t);
    const bool words =
        s.cols % kPack == 0 && s.first_col % kPack == 0 && reinterpret_cast<std::uintptr_t>(s.codes) % 4 == 0;
    const unsigned threads = row_threads(y.cols, 256);
    launch("dequantize",
           {stream,
            dim3(static_cast<unsigned>(ceil_div(y.cols, static_cast<i64>(threads) * kPack)),
                 at_most(y.rows, kMostGridY)),
            threads, sizeof(Shared)},
           dequantize_part<T>, Rows<T>(y),
           Extent{y.rows, y.cols, words && wide(y), std::countr_zero(static_cast<std::uint64_t>(s.block))},
           s);
  });
}

}  // namespace ft::cuda
