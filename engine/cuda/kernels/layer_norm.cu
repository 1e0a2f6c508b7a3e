// LayerNorm and its gradient: one block for each row, which it reads once.
#include "engine/cuda/kernels/columns.cuh"
#include "engine/cuda/kernels/kept_row.cuh"
#include "engine/cuda/kernels/kernels.h"
#include "engine/ops/math.h"

namespace ft::cuda {
namespace {

// Unpacks a pack of a kept row; if there is no row, sets all elements to `value`.
template <class Row, class T>
__device__ void widen_or(float (&v)[kPack], float value, const T* row, const Row& kept, int p) {
  if (row) return kept.widen(v, p);
  for (float& e : v) e = value;
}

template <class T>
struct Norm {
  Rows<T> y, x;
  const T *w, *b;
  float *mean, *rstd;
  i64 cols;
  float eps;
};

template <class T, bool kWide>
__global__ void __launch_bounds__(kRowThreads) norm(Norm<T> c) {
  using Row = Kept<T, kWide>;
  const i64 row = blockIdx.x, stretch = Row::stretch();
  float* warps = shared_memory<RowShared>().warps;
  const float columns = static_cast<float>(c.cols);
  const bool again = stretch < c.cols;
  Row x, w, b;
  float sum = 0, squares = 0;
  for (i64 first = 0; first < c.cols; first += stretch) {
    x.load(c.x.at(row), first, c.cols);
    if (c.w) w.load(c.w, first, c.cols);
    if (c.b) b.load(c.b, first, c.cols);
#pragma unroll
    for (int p = 0; p < Row::kPacks; ++p) {
      float v[kPack];
      x.widen(v, p);
      for (const float e : v) sum += e;
    }
  }
  const float mean = block_sum(sum, warps) / columns;
  for (i64 first = 0; first < c.cols; first += stretch) {
    if (again) x.load(c.x.at(row), first, c.cols);
#pragma unroll
    for (int p = 0; p < Row::kPacks; ++p) {
      const i64 at = Row::column(first, p);
      if (at >= c.cols) break;
      float v[kPack];
      x.widen(v, p);
      const Pack pack = Row::pack_at(at, c.cols);
      for (int j = 0; j < kPack; ++j)
        if (j < pack.count) squares += (v[j] - mean) * (v[j] - mean);
    }
  }
  const float rstd = 1 / sqrtf(block_sum(squares, warps) / columns + c.eps);
  if (threadIdx.x == 0) {
    c.mean[row] = mean;
    c.rstd[row] = rstd;
  }
  for (i64 first = 0; first < c.cols; first += stretch) {
    if (again) x.load(c.x.at(row), first, c.cols);
    if (again && c.w) w.load(c.w, first, c.cols);
    if (again && c.b) b.load(c.b, first, c.cols);
#pragma unroll
    for (int p = 0; p < Row::kPacks; ++p) {
      const i64 at = Row::column(first, p);
      if (at >= c.cols) break;
      float v[kPack], weight[kPack], bias[kPack];
      x.widen(v, p);
      widen_or(weight, 1, c.w, w, p);
      widen_or(bias, 0, c.b, b, p);
      for (int j = 0; j < kPack; ++j) v[j] = (v[j] - mean) * rstd * weight[j] + bias[j];
      store(c.y.at(row, at), v, Row::pack_at(at, c.cols));
    }
  }
}

template <class T>
struct Dx {
  Rows<T> dx, dy, x;
  const T* w;
  const float *mean, *rstd;
  i64 cols;
};

template <class T, bool kWide>
__global__ void __launch_bounds__(kRowThreads) norm_dx(Dx<T> c) {
  using Row = Kept<T, kWide>;
  const i64 row = blockIdx.x, stretch = Row::stretch();
  const float mean = c.mean[row], rstd = c.rstd[row], columns = static_cast<float>(c.cols);
  float* warps = shared_memory<RowShared>().warps;
  Row x, dy, w, dx;
  const auto load = [&](i64 first) {
    x.load(c.x.at(row), first, c.cols);
    dy.load(c.dy.at(row), first, c.cols);
    if (c.w) w.load(c.w, first, c.cols);
    dx.load(c.dx.at(row), first, c.cols);
  };
  float g = 0, gn = 0;
  for (i64 first = 0; first < c.cols; first += stretch) {
    load(first);
#pragma unroll
    for (int p = 0; p < Row::kPacks; ++p) {
      float v[kPack], d[kPack], weight[kPack];
      x.widen(v, p);
      dy.widen(d, p);
      widen_or(weight, 1, c.w, w, p);
      for (int j = 0; j < kPack; ++j) {
        g += d[j] * weight[j];
        gn += d[j] * weight[j] * ((v[j] - mean) * rstd);
      }
    }
  }
  const float mean_g = block_sum(g, warps) / columns, mean_gn = block_sum(gn, warps) / columns;
  for (i64 first = 0; first < c.cols; first += stretch) {
    if (stretch < c.cols) load(first);
#pragma unroll
    for (int p = 0; p < Row::kPacks; ++p) {
      const i64 at = Row::column(first, p);
      if (at >= c.cols) break;
      float v[kPack], d[kPack], weight[kPack], sum[kPack];
      x.widen(v, p);
      dy.widen(d, p);
      widen_or(weight, 1, c.w, w, p);
      dx.widen(sum, p);
      for (int j = 0; j < kPack; ++j)
        sum[j] += math::layer_norm_slope(d[j], (v[j] - mean) * rstd, weight[j], rstd, mean_g, mean_gn);
      store(c.dx.at(row, at), sum, Row::pack_at(at, c.cols));
    }
  }
}

template <class T>
struct Dw {  // dy (x - mean) rstd
  Rows<T> dy, x;
  const float *mean, *rstd;
  bool wide;
  __device__ void operator()(float (&v)[kPack], i64 row, i64 column, Pack pack) const {
    float d[kPack];
    load(v, x.at(row, column), pack);
    load(d, dy.at(row, column), pack);
    for (int j = 0; j < kPack; ++j) v[j] = d[j] * ((v[j] - mean[row]) * rstd[row]);
  }
};

}  // namespace

void compute(const op::LayerNorm& op, const Queue& queue) {
  const View y = view_of(op.y), x = view_of(op.x), w = view_of(op.w), b = view_of(op.b);
  if (x.rows == 0) return;
  with_float(x.type, [&](auto t) {
    using T = decltype(t);
    keep_each_row<T>("layer_norm", queue, x, wide({y, x, w, b}), norm<T, true>, norm<T, false>,
                     Norm<T>{Rows<T>(y), Rows<T>(x), data_of<const T>(op.w), data_of<const T>(op.b),
                             data_of<float>(op.mean), data_of<float>(op.rstd), x.cols, op.eps});
  });
}

void compute(const op::LayerNormGrad& op, const Queue& queue) {
  const View dx = view_of(op.dx), dy = view_of(op.dy), x = view_of(op.x), w = view_of(op.w);
  const float *mean = data_of<const float>(op.mean), *rstd = data_of<const float>(op.rstd);
  with_float(x.type, [&](auto t) {
    using T = decltype(t);
    if (dx.data && x.rows > 0)
      keep_each_row<T>(
          "layer_norm_grad", queue, x, wide({dx, dy, x, w}), norm_dx<T, true>, norm_dx<T, false>,
          Dx<T>{Rows<T>(dx), Rows<T>(dy), Rows<T>(x), data_of<const T>(op.w), mean, rstd, x.cols});
    if (op.dw)
      add_column_sums(queue.stream, data_of<float>(op.dw), x,
                      Dw<T>{Rows<T>(dy), Rows<T>(x), mean, rstd, wide({dy, x})});
    if (op.db) add_column_sums(queue.stream, data_of<float>(op.db), dy, Elements<T>{Rows<T>(dy), wide(dy)});
  });
}

}  // namespace ft::cuda
