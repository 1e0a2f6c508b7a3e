// Shared parts of the tensor-core kernels of attention: tensors, heads, and visibility.
#pragma once
#include "engine/cuda/kernels/attention.cuh"
#include "engine/cuda/kernels/tiles.cuh"

namespace ft::cuda {

__device__ inline int lesser(int a, int b) { return a < b ? a : b; }
__device__ inline int greater(int a, int b) { return a > b ? a : b; }

template <class T>
struct MmaTensors {
  Rows<T> q, k, v, y, dy, dq, dk, dv;
  int width;
  bool wide;
  explicit MmaTensors(const Attention& c)
      : q(c.q),
        k(c.k),
        v(c.v),
        y(c.y),
        dy(c.dy),
        dq(c.dq),
        dk(c.dk),
        dv(c.dv),
        width(c.width),
        wide(c.width % kPack == 0 && cuda::wide({c.q, c.k, c.v, c.y, c.dy, c.dq, c.dk, c.dv})) {}
  __device__ Head<T> head(const Rows<T>& x, i64 n) const { return {x, n, width, wide}; }
};

// Assigns a head and a tile to each block. Groups of heads that fit the GPU's cache together take turns.
// Within a group the longest tiles of all heads come first, so that the blocks of a launch end at the same
// time.
struct Turns {
  unsigned heads, together;
  // bytes: read by the tiles of a head, and shared by these tiles.
  Turns(i64 all, i64 bytes, i64 cache)
      : heads(static_cast<unsigned>(all)),
        together(bytes * all <= cache ? heads : at_least_1(cache / bytes)) {}
  dim3 grid(i64 tiles) const {
    return {static_cast<unsigned>(tiles) * together, (heads + together - 1) / together};
  }
  __device__ i64 head() const {
    return uniform(static_cast<int>(blockIdx.y * together + blockIdx.x % together));
  }
  __device__ i64 tile() const { return uniform(static_cast<int>(blockIdx.x / together)); }
  __device__ bool none() const { return head() >= heads; }

 private:
  static unsigned at_least_1(i64 n) { return n < 1 ? 1 : static_cast<unsigned>(n); }
};

// Visibility of columns: row r sees columns [r + low, r + high) within [from, to). Rows are queries and
// columns keys, or the other way round. All are numbered within the batch.
struct Band {
  static constexpr int kFar = 1 << 30;
  int to, low, high;

  static __device__ Band of_queries(const Attention& c, const Tile& t) {
    return {t.to, 1 - window(c), c.causal ? 1 : kFar};
  }
  static __device__ Band of_keys(const Attention& c, const Tile& t) {
    return {t.to, c.causal ? 0 : -kFar, window(c)};
  }
  // The first column that any row from `first` on sees.
  __device__ int begin_of(const Tile& t, int first) const { return greater(t.from, first + low); }
  __device__ int end(int row) const { return lesser(to, row + high); }
  // True if rows [first, last) see any, or all, of n columns.
  __device__ bool any(int first, int last, int column, int n) const {
    return first < last && column < end(last - 1) && column + n > first + low;
  }
  __device__ bool all(int first, int last, int column, int n) const {
    return column >= last - 1 + low && column + n <= end(first);
  }

 private:
  static __device__ int window(const Attention& c) {
    return c.window > 0 && c.window < kFar ? static_cast<int>(c.window) : kFar;
  }
};

// Sets scores of pairs that do not see each other to -infinity; the first score is for `row` and `column`.
template <int kM, int kN>
__device__ void hide(float (&s)[kM][kN][4], const Band& band, int row, int column) {
  const Lane lane;
#pragma unroll
  for (int m = 0; m < kM; ++m)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int r = row + 16 * m + 8 * half + lane.g, own = column + 2 * lane.t;
      const int begin = r + band.low - own, end = band.end(r) - own;
#pragma unroll
      for (int n = 0; n < kN; ++n)
#pragma unroll
        for (int j = 0; j < 2; ++j)
          if (8 * n + j < begin || 8 * n + j >= end) s[m][n][2 * half + j] = kLowest;
    }
}

// Reduces over the four lanes that hold parts of a row.
__device__ inline float quad_largest(float v) {
  v = fmaxf(v, __shfl_xor_sync(~0u, v, 1));
  return fmaxf(v, __shfl_xor_sync(~0u, v, 2));
}
__device__ inline float quad_sum(float v) {
  v += __shfl_xor_sync(~0u, v, 1);
  return v + __shfl_xor_sync(~0u, v, 2);
}

template <int kN>
__device__ void scale_all(float (&x)[kN][4], float by) {
#pragma unroll
  for (int i = 0; i < 4 * kN; ++i) x[i / 4][i % 4] *= by;
}

// ds = p (dp - delta), with p = exp2(power s - lse); ds holds dp before.
template <int kN>
__device__ void gradients_of_scores(float (&ds)[1][kN][4], const float (&s)[1][kN][4],
                                    const float (&delta)[2], const float (&lse)[2], float power) {
#pragma unroll
  for (int n = 0; n < kN; ++n)
#pragma unroll
    for (int j = 0; j < 4; ++j)
      ds[0][n][j] = (ds[0][n][j] - delta[j / 2]) * power_of_2(s[0][n][j] * power - lse[j / 2]);
}

// Calls f(type, columns): the element type, and 64 or 128 columns that hold a head.
template <class F>
void with_type_and_columns(const Attention& c, F f) {
  const auto in = [&](auto type) {
    if (c.width <= 64)
      f(type, std::integral_constant<int, 64>{});
    else
      f(type, std::integral_constant<int, 128>{});
  };
  c.q.type == DType::f16 ? in(f16{}) : in(bf16{});
}

}  // namespace ft::cuda
