// Quantizes rows to FP8, one block for each row, which it reads once, and transposes matrices of bytes.
#include "engine/cuda/kernels/fp8_rows.h"

#include "engine/cuda/kernels/kept_row.cuh"
#include "engine/quant/fp8_rows.h"

namespace ft::cuda {
namespace {

struct Call {
  Rows<bf16> x;
  const float* factors;
  std::uint8_t* codes;
  float* scales;
  i64 cols;
};

// Rows of a left operand, the same with factors, or rows of a matrix, which are divided by their scale.
enum class Kind { plain, factors, matrix };

template <Kind kKind>
__device__ inline void multiply(float (&v)[kPack], const float* factors, i64 column, Pack pack) {
  if constexpr (kKind == Kind::factors) {
    float w[kPack];
    load(w, factors + column, pack);
    for (int j = 0; j < kPack; ++j) v[j] *= w[j];
  }
}

// Calls f(column, values, pack) for the thread's packs of a stretch: values of the row times factors.
template <Kind kKind, class Row>
__device__ inline void each_product(const Row& x, const Call& c, i64 first, const auto& f) {
#pragma unroll
  for (int p = 0; p < Row::kPacks; ++p) {
    const i64 at = Row::column(first, p);
    if (at >= c.cols) break;
    const Pack pack = Row::pack_at(at, c.cols);
    float v[kPack];
    x.widen(v, p);
    multiply<kKind>(v, c.factors, at, pack);
    f(at, v, pack);
  }
}

__device__ inline void store_codes(std::uint8_t* to, const float (&v)[kPack], Pack pack) {
  unsigned words[2];
  for (int i = 0; i < 2; ++i)
    words[i] = e4m3_pair(v[4 * i], v[4 * i + 1]) | e4m3_pair(v[4 * i + 2], v[4 * i + 3]) << 16;
  if (pack.wide)
    *reinterpret_cast<uint2*>(to) = {words[0], words[1]};
  else
    for (int j = 0; j < pack.count; ++j) to[j] = static_cast<std::uint8_t>(words[j / 4] >> 8 * (j % 4));
}

template <bool kWide, Kind kKind>
__global__ void __launch_bounds__(kRowThreads) quantize(Call c) {
  using Row = Kept<bf16, kWide>;
  const i64 row = blockIdx.x, stretch = Row::stretch();
  Row x;
  float largest = 0;
  for (i64 first = 0; first < c.cols; first += stretch) {
    x.load(c.x.at(row), first, c.cols);
    each_product<kKind>(x, c, first, [&](i64, const float(&v)[kPack], Pack) {
      for (const float e : v) largest = fmaxf(largest, fabsf(e));
    });
  }
  const float scale = fp8_scale(block_largest(largest, shared_memory<RowShared>().warps));
  const float inverse = fp8_inverse(scale);
  if (threadIdx.x == 0) c.scales[row] = scale;
  for (i64 first = 0; first < c.cols; first += stretch) {
    if (stretch < c.cols) x.load(c.x.at(row), first, c.cols);
    each_product<kKind>(x, c, first, [&](i64 at, float(&v)[kPack], Pack pack) {
      for (float& e : v) e = kKind == Kind::matrix ? e / scale : e * inverse;
      store_codes(c.codes + row * c.cols + at, v, pack);
    });
  }
}

// ---- transposition: tiles of 128 x 128 bytes. A thread reads 16 columns of four rows and writes each
// column's four bytes to shared memory as a word. There a line has the 32 words of a column, rotated by
// four for each 16 columns, so that neither the writes nor the 16-byte reads of a warp meet in a bank.
constexpr int kTile = 128, kThreads = 256, kWords = kTile / 4;

struct Tile {
  alignas(16) unsigned lines[kTile][kWords];
};

__device__ inline int place(int column, int word) { return (word + 4 * (column / 16)) % kWords; }

// Word j of `to` gets byte j of each of the four words, the first in its low byte.
__device__ inline void turn(unsigned (&to)[4], unsigned a, unsigned b, unsigned c, unsigned d) {
  constexpr unsigned kEven = 0x00ff00ff;
  const unsigned ab0 = (a & kEven) | (b & kEven) << 8, ab1 = (a >> 8 & kEven) | (b & ~kEven),
                 cd0 = (c & kEven) | (d & kEven) << 8, cd1 = (c >> 8 & kEven) | (d & ~kEven);
  to[0] = (ab0 & 0xffff) | cd0 << 16;
  to[1] = (ab1 & 0xffff) | cd1 << 16;
  to[2] = ab0 >> 16 | (cd0 & 0xffff0000u);
  to[3] = ab1 >> 16 | (cd1 & 0xffff0000u);
}

struct Matrices {
  std::uint8_t* to;
  const std::uint8_t* from;
  i64 rows, cols;  // of from
};

__global__ void __launch_bounds__(kThreads) transpose(Matrices m) {
  auto& tile = shared_memory<Tile>().lines;
  const int thread = static_cast<int>(threadIdx.x);
  const i64 first_row = i64{blockIdx.y} * kTile, first_column = i64{blockIdx.x} * kTile;
  {
    const int pack = thread % 8, word = thread / 8;
    const i64 row = first_row + 4 * word, column = first_column + 16 * pack;
    uint4 four[4] = {};
    if (row < m.rows && column < m.cols)
      for (int i = 0; i < 4; ++i)
        four[i] = *reinterpret_cast<const uint4*>(m.from + (row + i) * m.cols + column);
    const auto put = [&](int begin, unsigned a, unsigned b, unsigned c, unsigned d) {
      unsigned turned[4];
      turn(turned, a, b, c, d);
      for (int j = 0; j < 4; ++j) {
        const int line = 16 * pack + begin + j;
        tile[line][place(line, word)] = turned[j];
      }
    };
    put(0, four[0].x, four[1].x, four[2].x, four[3].x);
    put(4, four[0].y, four[1].y, four[2].y, four[3].y);
    put(8, four[0].z, four[1].z, four[2].z, four[3].z);
    put(12, four[0].w, four[1].w, four[2].w, four[3].w);
  }
  __syncthreads();
  for (int i = 0; i < kTile * 8 / kThreads; ++i) {
    const int line = thread / 8 + i * (kThreads / 8), word = thread % 8 * 4;
    const i64 column = first_column + line, row = first_row + 4 * word;
    if (column < m.cols && row < m.rows)
      store_16(m.to + column * m.rows + row, *reinterpret_cast<const uint4*>(&tile[line][place(line, word)]));
  }
}

}  // namespace

void quantize_rows(cudaStream_t stream, const Fp8Rows& r) {
  if (r.x.rows == 0 || r.x.cols == 0) return;
  const Call call{Rows<bf16>(r.x), r.factors, r.codes, r.scales, r.x.cols};
  const Queue queue{stream, nullptr, nullptr};
  const bool reachable = wide(r.x) && reinterpret_cast<std::uintptr_t>(r.factors) % 16 == 0 &&
                         reinterpret_cast<std::uintptr_t>(r.codes) % 8 == 0;
  const auto run = [&](auto in_packs, auto by_elements) {
    keep_each_row<bf16>("quantize_rows", queue, r.x, reachable, in_packs, by_elements, call);
  };
  if (r.of_matrix)
    run(quantize<true, Kind::matrix>, quantize<false, Kind::matrix>);
  else if (r.factors)
    run(quantize<true, Kind::factors>, quantize<false, Kind::factors>);
  else
    run(quantize<true, Kind::plain>, quantize<false, Kind::plain>);
}

void transpose_bytes(cudaStream_t stream, std::uint8_t* to, const std::uint8_t* from, std::int64_t rows,
                     std::int64_t cols) {
  require(rows % 16 == 0 && cols % 16 == 0, "transpose_bytes: sizes are not multiples of 16");
  const dim3 grid(static_cast<unsigned>(ceil_div(cols, kTile)), static_cast<unsigned>(ceil_div(rows, kTile)));
  launch("transpose_bytes", {stream, grid, kThreads, sizeof(Tile)}, transpose,
         Matrices{to, from, rows, cols});
}

}  // namespace ft::cuda
