// Parts of the kernels of the gated delta rule: products of warps with nearly f32's accuracy on tensor
// cores, chunks and their factors.
#pragma once
#include "engine/cuda/kernels/delta_rule.h"
#include "engine/cuda/kernels/tiles.cuh"

namespace ft::cuda {

constexpr int kDeltaThreads = 256, kChunk = static_cast<int>(kDeltaChunk);

template <class T>
__device__ inline T* element(const View& x, i64 row, i64 column) {
  return static_cast<T*>(x.data) + row * x.stride + column;
}

// ---- products
// An f32 number is a sum of two of tf32, high + low, with an error of 2^-22. A product takes three terms:
// high high + high low + low high. kExact: the numbers are of 16 bits, so low is zero and its term left
// out.
template <bool kExact>
struct DeltaLeftPart {
  float high[4], low[4];
  __device__ void set(int i, float x) {
    high[i] = kExact ? x : to_tf32(x);
    low[i] = x - high[i];
  }
};

template <bool kExact, int kTiles>
struct DeltaRightPart {
  float high[kTiles][2], low[kTiles][2];
  // b(p, c): row p of the eight, column c of the warp's.
  __device__ explicit DeltaRightPart(const auto& b) {
    const Lane lane;
#pragma unroll
    for (int n = 0; n < kTiles; ++n)
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const float x = b(lane.t + 4 * i, 8 * n + lane.g);
        high[n][i] = kExact ? x : to_tf32(x);
        low[n][i] = x - high[n][i];
      }
  }
};

// sum (16, 8 kTiles) += a (16, 8) b (8, 8 kTiles).
template <bool kExactLeft, bool kExactRight, int kTiles>
__device__ inline void add_product(float (&sum)[kTiles][4], const DeltaLeftPart<kExactLeft>& a,
                                   const DeltaRightPart<kExactRight, kTiles>& b) {
  if constexpr (!kExactRight) {
#pragma unroll
    for (int n = 0; n < kTiles; ++n) mma_tf32(sum[n], a.high, b.low[n][0], b.low[n][1]);
  }
  if constexpr (!kExactLeft) {
#pragma unroll
    for (int n = 0; n < kTiles; ++n) mma_tf32(sum[n], a.low, b.high[n][0], b.high[n][1]);
  }
#pragma unroll
  for (int n = 0; n < kTiles; ++n) mma_tf32(sum[n], a.high, b.high[n][0], b.high[n][1]);
}

// Rows and columns of the lane's four numbers of a left operand.
template <bool kExact>
__device__ inline DeltaLeftPart<kExact> left_part(const auto& a) {
  const Lane lane;
  DeltaLeftPart<kExact> part;
#pragma unroll
  for (int i = 0; i < 4; ++i) part.set(i, a(lane.g + i % 2 * 8, lane.t + i / 2 * 4));
  return part;
}

// Calls f(row, column, number) for the lane's numbers of a sum (16, 8 kTiles).
template <int kTiles>
__device__ inline void each_number(float (&sum)[kTiles][4], const auto& f) {
  const Lane lane;
#pragma unroll
  for (int n = 0; n < kTiles; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i) f(lane.g + i / 2 * 8, 8 * n + 2 * lane.t + i % 2, sum[n][i]);
}

// ---- chunks
// Inclusive sums over a warp's lanes.
__device__ inline float running_sum(float x) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  for (int by = 1; by < 32; by *= 2) {
    const float other = __shfl_sync(~0u, x, lane - by);
    if (lane >= by) x += other;
  }
  return x;
}

// Number of rows of the chunk that begins at `row`, in the sequence that begins at `from`.
__device__ inline int rows_of_chunk(const std::int32_t* first, i64 rows, i64 row, i64 from) {
  int count = 0;
  for (int half = 0; half < 2; ++half) {
    const i64 at = row + 32 * half + threadIdx.x % 32;
    const unsigned there = __ballot_sync(~0u, at < rows && first[at < rows ? at : row] == from);
    count += there == ~0u ? 32 : __ffs(static_cast<int>(~there)) - 1;
    if (there != ~0u) break;
  }
  return count;
}

// Calls f(row) for every row in the block's window, of at most 64 rows, for which is(row) is true.
__device__ inline void each_row_of_window(i64 rows, int window, const auto& is, const auto& f) {
  const i64 begin = static_cast<i64>(blockIdx.x) * window;
  for (int half = 0; half < 2; ++half) {
    const int place = 32 * half + static_cast<int>(threadIdx.x % 32);
    const i64 row = begin + place;
    unsigned some = __ballot_sync(~0u, place < window && row < rows && is(row));
    for (; some != 0; some &= some - 1) f(begin + 32 * half + __ffs(static_cast<int>(some)) - 1);
  }
}

// Numbers of a chunk's rows; zeros beyond its end.
struct DeltaFactors {
  float up[kChunk], rest[kChunk], beta[kChunk];  // e^sum, e^(last sum - sum), beta
  float q[kChunk], k[kChunk];                    // factors that normalise queries and keys
  float sum[kChunk];

  // Loads the chunk at `row` for value head `head`, with 64 of the block's threads.
  __device__ void load(const DeltaOperands& x, const DeltaGpuRoom& room, i64 row, int count, i64 head) {
    const int r = static_cast<int>(threadIdx.x);
    if (r >= kChunk) return;
    const bool there = r < count;
    const i64 at = row + (there ? r : count - 1);
    const float unit = 1 / sqrtf(static_cast<float>(x.heads.key_width)),
                last = room.sum(row + count - 1, head);
    sum[r] = room.sum(at, head);
    up[r] = there ? expf(sum[r]) : 0;
    rest[r] = there ? expf(last - sum[r]) : 0;
    beta[r] = there ? *element<float>(x.beta, at, head) : 0;
    q[r] = there ? room.q_rstd(at, head) * unit : 0;
    k[r] = there ? room.k_rstd(at, head) : 0;
  }
};

// Calls f(row, column) for all elements of a matrix (64, 64); neighbouring threads get neighbouring
// columns.
__device__ inline void each_element(const auto& f) {
#pragma unroll 4
  for (int i = static_cast<int>(threadIdx.x); i < kChunk * kChunk; i += kDeltaThreads)
    f(i / kChunk, i % kChunk);
}

// The part of a matrix (64, 64) that a warp computes: 16 rows and 32 columns.
struct DeltaPlace {
  static constexpr int kTiles = 4;
  int row, column;
  __device__ DeltaPlace() {
    const int warp = this_warp();
    row = warp % 4 * 16;
    column = warp / 4 * 32;
  }
  // sum += a b for matrices with `depth` columns and rows, by warps.
  template <bool kExactLeft = false, bool kExactRight = false>
  __device__ void add(float (&sum)[kTiles][4], int depth, const auto& a, const auto& b) const {
#pragma unroll 2
    for (int p = 0; p < depth; p += 8) {
      const auto left = left_part<kExactLeft>([&](int r, int c) { return a(row + r, p + c); });
      const DeltaRightPart<kExactRight, kTiles> right([&](int r, int c) { return b(p + r, column + c); });
      add_product(sum, left, right);
    }
  }
  __device__ void each(float (&sum)[kTiles][4], const auto& f) const {
    each_number(sum, [&](int r, int c, float& s) { f(row + r, column + c, s); });
  }
};

}  // namespace ft::cuda
