// RMSNorm and its gradient: one block for each row, which it reads once.
#include "engine/cuda/kernels/columns.cuh"
#include "engine/cuda/kernels/kept_row.cuh"
#include "engine/cuda/kernels/kernels.h"
#include "engine/ops/math.h"

namespace ft::cuda {
namespace {

template <class T>
struct Norm {
  Rows<T> y, x;
  const T* w;
  float* rstd;
  i64 cols;
  float eps, offset;
};

template <class T, bool kWide>
__global__ void __launch_bounds__(kRowThreads) norm(Norm<T> c) {
  using Row = Kept<T, kWide>;
  const i64 row = blockIdx.x, stretch = Row::stretch();
  Row x, w;
  const auto load = [&](i64 first) {
    x.load(c.x.at(row), first, c.cols);
    w.load(c.w, first, c.cols);
  };
  float squares = 0;
  for (i64 first = 0; first < c.cols; first += stretch) {
    load(first);
#pragma unroll
    for (int p = 0; p < Row::kPacks; ++p) {
      float v[kPack];
      x.widen(v, p);
      for (const float e : v) squares += e * e;
    }
  }
  squares = block_sum(squares, shared_memory<RowShared>().warps);
  const float rstd = 1 / sqrtf(squares / static_cast<float>(c.cols) + c.eps);
  if (threadIdx.x == 0) c.rstd[row] = rstd;
  for (i64 first = 0; first < c.cols; first += stretch) {
    if (stretch < c.cols) load(first);
#pragma unroll
    for (int p = 0; p < Row::kPacks; ++p) {
      const i64 at = Row::column(first, p);
      if (at >= c.cols) break;
      float v[kPack], weight[kPack];
      x.widen(v, p);
      w.widen(weight, p);
      for (int j = 0; j < kPack; ++j) v[j] = v[j] * rstd * (c.offset + weight[j]);
      store(c.y.at(row, at), v, Row::pack_at(at, c.cols));
    }
  }
}

template <class T>
struct Dx {
  Rows<T> dx, dy, x;
  const T* w;
  const float* rstd;
  i64 cols;
  float offset;
};

template <class T, bool kWide>
__global__ void __launch_bounds__(kRowThreads) norm_dx(Dx<T> c) {
  using Row = Kept<T, kWide>;
  const i64 row = blockIdx.x, stretch = Row::stretch();
  Row x, dy, w, dx;
  const auto load = [&](i64 first) {
    x.load(c.x.at(row), first, c.cols);
    dy.load(c.dy.at(row), first, c.cols);
    w.load(c.w, first, c.cols);
    dx.load(c.dx.at(row), first, c.cols);
  };
  float dot = 0;
  for (i64 first = 0; first < c.cols; first += stretch) {
    load(first);
#pragma unroll
    for (int p = 0; p < Row::kPacks; ++p) {
      float v[kPack], d[kPack], weight[kPack];
      x.widen(v, p);
      dy.widen(d, p);
      w.widen(weight, p);
      for (int j = 0; j < kPack; ++j) dot += d[j] * (c.offset + weight[j]) * v[j];
    }
  }
  dot = block_sum(dot, shared_memory<RowShared>().warps);
  const float rstd = c.rstd[row], pull = dot * rstd * rstd * rstd / static_cast<float>(c.cols);
  for (i64 first = 0; first < c.cols; first += stretch) {
    if (stretch < c.cols) load(first);
#pragma unroll
    for (int p = 0; p < Row::kPacks; ++p) {
      const i64 at = Row::column(first, p);
      if (at >= c.cols) break;
      float v[kPack], d[kPack], weight[kPack], sum[kPack];
      x.widen(v, p);
      dy.widen(d, p);
      w.widen(weight, p);
      dx.widen(sum, p);
      for (int j = 0; j < kPack; ++j)
        sum[j] += math::rms_norm_slope(d[j], v[j], c.offset + weight[j], rstd, pull);
      store(c.dx.at(row, at), sum, Row::pack_at(at, c.cols));
    }
  }
}

template <class T>
struct Dw {  // dy x rstd
  Rows<T> dy, x;
  const float* rstd;
  bool wide;
  __device__ void operator()(float (&v)[kPack], i64 row, i64 column, Pack pack) const {
    float d[kPack];
    load(v, x.at(row, column), pack);
    load(d, dy.at(row, column), pack);
    for (int j = 0; j < kPack; ++j) v[j] = d[j] * v[j] * rstd[row];
  }
};

}  // namespace

void compute(const op::RmsNorm& op, const Queue& queue) {
  const View y = view_of(op.y), x = view_of(op.x), w = view_of(op.w);
  if (x.rows == 0) return;
  with_float(x.type, [&](auto t) {
    using T = decltype(t);
    keep_each_row<T>("rms_norm", queue, x, wide({y, x, w}), norm<T, true>, norm<T, false>,
                     Norm<T>{Rows<T>(y), Rows<T>(x), data_of<const T>(op.w), data_of<float>(op.rstd), x.cols,
                             op.eps, op.offset});
  });
}

void compute(const op::RmsNormGrad& op, const Queue& queue) {
  const View dx = view_of(op.dx), dy = view_of(op.dy), x = view_of(op.x), w = view_of(op.w);
  const auto* rstd = data_of<const float>(op.rstd);
  with_float(x.type, [&](auto t) {
    using T = decltype(t);
    if (dx.data && x.rows > 0)
      keep_each_row<T>(
          "rms_norm_grad", queue, x, wide({dx, dy, x, w}), norm_dx<T, true>, norm_dx<T, false>,
          Dx<T>{Rows<T>(dx), Rows<T>(dy), Rows<T>(x), data_of<const T>(op.w), rstd, x.cols, op.offset});
    if (op.dw)
      add_column_sums(queue.stream, data_of<float>(op.dw), x,
                      Dw<T>{Rows<T>(dy), Rows<T>(x), rstd, wide({dy, x})});
  });
}

}  // namespace ft::cuda
