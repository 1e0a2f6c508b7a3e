// What the tensor-core kernels of attention share. A block is four warps, each with 16 rows of a tile of 64.
// Matrices lie in shared memory with 16 bytes between their rows, so that the lanes of a warp reach fragments
// in 32 different banks; where the summed dimension would be the rows, a transposed copy lies beside.
#pragma once
#include "engine/cuda/kernels/attention.cuh"
#include "engine/cuda/kernels/mma.cuh"

namespace ft::cuda {

constexpr int kMmaThreads = 128, kMmaRows = 64, kGap = 8;  // elements between rows

// T: bf16 or f16.
template <class T, int kRows, int kColumns>
struct MmaMatrix {
  static constexpr int kStride = kColumns + kGap;
  T at[kRows][kStride];
};

// One head of a tensor.
template <class T>
struct Head {
  const T* data;
  i64 stride;
  int width;  // columns
  bool wide;  // 16-byte accesses reach them
  __device__ Head(Rows<T> x, i64 head, int columns, bool all_wide)
      : data(x.data + head * columns), stride(x.stride), width(columns), wide(all_wide) {}
};

template <class T>
struct MmaTensors {
  Rows<T> q, k, v, y, dy, dq, dk, dv;
  bool wide;
};
template <class T>
MmaTensors<T> mma_tensors(const Attention& c) {
  const bool all_wide = c.width % kPack == 0 && wide({c.q, c.k, c.v, c.dy});
  return {Rows<T>(c.q),  Rows<T>(c.k),  Rows<T>(c.v),  Rows<T>(c.y), Rows<T>(c.dy),
          Rows<T>(c.dq), Rows<T>(c.dk), Rows<T>(c.dv), all_wide};
}

template <class T>
struct alignas(16) Eight {
  T of[kPack];
};

template <class T>
__device__ Eight<T> eight_at(const Head<T>& h, i64 row, i64 last, int column) {
  Eight<T> v{};
  if (row >= last) return v;
  const T* p = h.data + row * h.stride + column;
  if (h.wide && column + kPack <= h.width) return *reinterpret_cast<const Eight<T>*>(p);
  for (int j = 0; j < kPack; ++j)
    if (column + j < h.width) v.of[j] = p[j];
  return v;
}

// Rows [first, first + kRows) of a head, 0 from row `last` on and beyond its width.
template <class T, int kRows, int kColumns>
__device__ void fetch(MmaMatrix<T, kRows, kColumns>& m, const Head<T>& h, i64 first, i64 last) {
  for (int e = static_cast<int>(threadIdx.x); e < kRows * kColumns / kPack; e += kMmaThreads) {
    const int row = e / (kColumns / kPack), column = e % (kColumns / kPack) * kPack;
    *reinterpret_cast<Eight<T>*>(&m.at[row][column]) = eight_at(h, first + row, last, column);
  }
}
template <class T, int kRows, int kColumns>
__device__ void fetch_transposed(MmaMatrix<T, kColumns, kRows>& m, const Head<T>& h, i64 first, i64 last) {
  for (int e = static_cast<int>(threadIdx.x); e < kRows * kColumns / kPack; e += kMmaThreads) {
    const int row = e % kRows, column = e / kRows * kPack;
    const Eight<T> v = eight_at(h, first + row, last, column);
    for (int j = 0; j < kPack; ++j) m.at[column + j][row] = v.of[j];
  }
}

// Where a lane's part of a fragment lies: see mma.cuh.
struct Lane {
  int g, t;
  __device__ Lane() : g(static_cast<int>(threadIdx.x % 32) / 4), t(static_cast<int>(threadIdx.x % 4)) {}
};

template <class T>
__device__ unsigned word_at(const T* p) {
  return *reinterpret_cast<const unsigned*>(p);
}

// d (16, kN) += rows [row, row + 16) of a times all kN rows of b, transposed: sums over kDepth columns.
template <class T, int kRows, int kN, int kDepth>
__device__ void multiply(float (&d)[kN / 8][4], const MmaMatrix<T, kRows, kDepth>& a, int row,
                         const MmaMatrix<T, kN, kDepth>& b) {
  const Lane lane;
  for (int k = 2 * lane.t; k < kDepth; k += 16) {
    const T *top = &a.at[row + lane.g][k], *bottom = &a.at[row + lane.g + 8][k];
    const unsigned left[4] = {word_at(top), word_at(bottom), word_at(top + 8), word_at(bottom + 8)};
#pragma unroll
    for (int n = 0; n < kN / 8; ++n) {
      const T* p = &b.at[8 * n + lane.g][k];
      const unsigned right[2] = {word_at(p), word_at(p + 8)};
      mma(T{}, d[n], left, right);
    }
  }
}

// d (16, kN) += p (16, kDepth), which a multiply has made, rounded to T, times b, whose transpose is given.
template <class T, int kN, int kDepth>
__device__ void add_product(float (&d)[kN / 8][4], const float (&p)[kDepth / 8][4],
                            const MmaMatrix<T, kN, kDepth>& b) {
  const Lane lane;
#pragma unroll
  for (int k = 0; k < kDepth / 16; ++k) {
    const float(&a)[4] = p[2 * k], (&c)[4] = p[2 * k + 1];
    const unsigned left[4] = {pair_of(T{}, a[0], a[1]), pair_of(T{}, a[2], a[3]), pair_of(T{}, c[0], c[1]),
                              pair_of(T{}, c[2], c[3])};
#pragma unroll
    for (int n = 0; n < kN / 8; ++n) {
      const T* at = &b.at[8 * n + lane.g][16 * k + 2 * lane.t];
      const unsigned right[2] = {word_at(at), word_at(at + 8)};
      mma(T{}, d[n], left, right);
    }
  }
}

// Writes rows [row, row + 16) of a head, those below `last`.
template <int kN, class T>
__device__ void put(Rows<T> y, i64 head, int width, i64 row, i64 last, const float (&d)[kN / 8][4]) {
  const Lane lane;
#pragma unroll
  for (int n = 0; n < kN / 8; ++n)
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const i64 at = row + lane.g + j / 2 * 8;
      const int column = 8 * n + 2 * lane.t + j % 2;
      if (at < last && column < width) from_float(*y.at(at, head * width + column), d[n][j]);
    }
}

// Over the four lanes that hold parts of a row.
__device__ inline float quad_largest(float v) {
  v = fmaxf(v, __shfl_xor_sync(~0u, v, 1));
  return fmaxf(v, __shfl_xor_sync(~0u, v, 2));
}
__device__ inline float quad_sum(float v) {
  v += __shfl_xor_sync(~0u, v, 1);
  return v + __shfl_xor_sync(~0u, v, 2);
}

}  // namespace ft::cuda
