// Decodes a part of a matrix in 4 bits to a dense matrix of f32, bf16 or f16: each element is value(code) *
// absmax, rounded once.
#include <bit>

#include "engine/cuda/kernels/device.cuh"
#include "engine/cuda/kernels/kernels.h"

namespace ft::cuda {
namespace {

struct Shared {
  float values[16];
};

struct Extent {
  i64 rows, cols;
  int block_bits;  // a block has 2^block_bits elements: 64-bit divisions would take longer than the rest
};

__device__ inline float absmax_of(const FourBitSource& s, i64 block) {
  if (s.absmax) return s.absmax[block];
  if (!s.nested_absmax) return power_of_two(s.absmax_codes[block]);
  return nested_value(s.map[s.absmax_codes[block]], s.nested_absmax[block / kNestedBlock], *s.nested_offset);
}

__device__ inline const float* values_of(const FourBitSource& s) {
  float* values = shared_memory<Shared>().values;
  if (threadIdx.x < 16) values[threadIdx.x] = s.values.of[threadIdx.x];
  __syncthreads();
  return values;
}

// Decodes one pack per thread, at any place: its elements may belong to several blocks, and share bytes with
// others.
template <class T>
__global__ void __launch_bounds__(256) dequantize_packs(Rows<T> y, Extent e, FourBitSource s) {
  const float* values = values_of(s);
  const i64 column = (static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x) * kPack;
  if (column >= e.cols) return;
  const Pack pack = pack_at(column, e.cols, false);
  for (i64 row = blockIdx.y; row < e.rows; row += gridDim.y) {
    const i64 first = (s.first_row + row) * s.cols + s.first_col + column;  // number of the element
    float v[kPack];
    for (int j = 0; j < kPack; ++j)  // with a constant number of turns, so that v stays in registers
      v[j] = j < pack.count
                 ? values[four_bit_code(s.codes, first + j)] * absmax_of(s, (first + j) >> e.block_bits)
                 : 0;
    store(y.at(row, column), v, pack);
  }
}

// Elements of a row that a warp decodes. A lane has a pack of each quarter, so that a warp always accesses
// neighbouring bytes. Lane i reads the absmax of the i-th 32 elements, which are all in one block.
constexpr int kStretch = 1024, kQuarters = 4, kWarps = 8;
static_assert(kStretch == kQuarters * 32 * kPack && kStretch == 32 * 32);

// The value of a pack's element j; even elements are in the high halves of their bytes. The table is read at
// a byte offset, which takes one instruction less than an index.
__device__ inline float value_of(const float* values, std::uint32_t word, int j) {
  const int bit = 4 * (j ^ 1) - 2;
  const std::uint32_t at = (bit < 0 ? word << 2 : word >> bit) & 60;
  return *reinterpret_cast<const float*>(reinterpret_cast<const unsigned char*>(values) + at);
}

template <class T>
__global__ void __launch_bounds__(32 * kWarps) dequantize_stretches(Rows<T> y, Extent e, FourBitSource s) {
  const float* values = values_of(s);
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const i64 stretch = static_cast<i64>(blockIdx.x) * kWarps + warp, group = stretch * 32 + lane;
  const i64 pack = stretch * kQuarters * 32 + lane;  // of the first quarter
  for (i64 row = blockIdx.y; row < e.rows; row += gridDim.y) {
    const i64 first = (s.first_row + row) * s.cols + s.first_col;
    std::uint32_t words[kQuarters];
    for (int q = 0; q < kQuarters; ++q) {
      const i64 column = (pack + q * 32) * kPack;
      words[q] =
          column < e.cols ? *reinterpret_cast<const std::uint32_t*>(s.codes + (first + column) / 2) : 0;
    }
    const float mine = group * 32 < e.cols ? absmax_of(s, (first + group * 32) >> e.block_bits) : 0;
    for (int q = 0; q < kQuarters; ++q) {
      const i64 column = (pack + q * 32) * kPack;
      const float absmax = __shfl_sync(~0u, mine, q * kPack + lane / 4);
      float v[kPack];
      for (int j = 0; j < kPack; ++j) v[j] = value_of(values, words[q], j) * absmax;
      if (column < e.cols) store(y.at(row, column), v, {kPack, true});
    }
  }
}

// True if rows are complete packs and begin with a group of 32 elements, in y and in the matrix.
bool stretches(const View& y, const FourBitSource& s) {
  return wide(y) && y.cols % kPack == 0 && s.first_col % 32 == 0 && (s.cols % 32 == 0 || y.rows == 1) &&
         s.first_row * s.cols % 32 == 0 && reinterpret_cast<std::uintptr_t>(s.codes) % 4 == 0;
}

}  // namespace

void dequantize(cudaStream_t stream, const View& part, const FourBitSource& s) {
  if (part.rows == 0 || part.cols == 0) return;
  View y = part;
  if (dense(y) && y.cols == s.cols) y = {y.data, y.type, 1, y.rows * y.cols, y.rows * y.cols};
  with_float(y.type, [&](auto t) {
    using T = decltype(t);
    const Extent e{y.rows, y.cols, std::countr_zero(static_cast<std::uint64_t>(s.block))};
    const auto run = [&](auto kernel, unsigned threads, i64 elements) {  // elements per block
      launch("dequantize",
             {stream, dim3(static_cast<unsigned>(ceil_div(y.cols, elements)), at_most(y.rows, kMostGridY)),
              threads, sizeof(Shared)},
             kernel, Rows<T>(y), e, s);
    };
    const unsigned threads = row_threads(y.cols, 256);
    if (stretches(y, s))
      run(dequantize_stretches<T>, 32 * kWarps, i64{kWarps} * kStretch);
    else
      run(dequantize_packs<T>, threads, static_cast<i64>(threads) * kPack);
  });
}

}  // namespace ft::cuda
