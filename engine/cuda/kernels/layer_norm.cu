// LayerNorm and its gradient: one block for each row.
#include "engine/cuda/kernels/columns.cuh"
#include "engine/cuda/kernels/kernels.h"
#include "engine/cuda/kernels/row_blocks.cuh"
#include "engine/ops/math.h"

namespace ft::cuda {
namespace {

// The value where there is nothing.
template <class T>
__device__ void load_or(float (&v)[kPack], float value, const T* p, i64 i, Pack pack) {
  if (p) return load(v, p + i, pack);
  for (float& e : v) e = value;
}

template <class T>
struct Norm {
  Rows<T> y, x;
  const T *w, *b;
  float *mean, *rstd;
  i64 cols;
  float eps;
  bool wide;
};

template <class T>
__global__ void __launch_bounds__(1024) norm(Norm<T> c) {
  const i64 row = blockIdx.x;
  const T* x = c.x.at(row);
  float* warps = shared_memory<RowShared>().warps;
  const float columns = static_cast<float>(c.cols);
  float sum = 0, squares = 0;
  for (i64 i = threadIdx.x * kPack; i < c.cols; i += blockDim.x * kPack) {
    float v[kPack];
    load(v, x + i, pack_at(i, c.cols, c.wide));
    for (const float e : v) sum += e;
  }
  const float mean = block_sum(sum, warps) / columns;
  for (i64 i = threadIdx.x * kPack; i < c.cols; i += blockDim.x * kPack) {
    float v[kPack];
    const Pack pack = pack_at(i, c.cols, c.wide);
    load(v, x + i, pack);
    for (int j = 0; j < pack.count; ++j) squares += (v[j] - mean) * (v[j] - mean);
  }
  const float rstd = 1 / sqrtf(block_sum(squares, warps) / columns + c.eps);
  if (threadIdx.x == 0) {
    c.mean[row] = mean;
    c.rstd[row] = rstd;
  }
  for (i64 i = threadIdx.x * kPack; i < c.cols; i += blockDim.x * kPack) {
    float v[kPack], w[kPack], b[kPack];
    const Pack pack = pack_at(i, c.cols, c.wide);
    load(v, x + i, pack);
    load_or(w, 1, c.w, i, pack);
    load_or(b, 0, c.b, i, pack);
    for (int j = 0; j < kPack; ++j) v[j] = (v[j] - mean) * rstd * w[j] + b[j];
    store(c.y.at(row, i), v, pack);
  }
}

template <class T>
struct Dx {
  Rows<T> dx, dy, x;
  const T* w;
  const float *mean, *rstd;
  i64 cols;
  bool wide;
};

template <class T>
__global__ void __launch_bounds__(1024) norm_dx(Dx<T> c) {
  const i64 row = blockIdx.x;
  const T *x = c.x.at(row), *dy = c.dy.at(row);
  const float mean = c.mean[row], rstd = c.rstd[row], columns = static_cast<float>(c.cols);
  float* warps = shared_memory<RowShared>().warps;
  float g = 0, gn = 0;
  for (i64 i = threadIdx.x * kPack; i < c.cols; i += blockDim.x * kPack) {
    float v[kPack], d[kPack], w[kPack];
    const Pack pack = pack_at(i, c.cols, c.wide);
    load(v, x + i, pack);
    load(d, dy + i, pack);
    load_or(w, 1, c.w, i, pack);
    for (int j = 0; j < kPack; ++j) {
      g += d[j] * w[j];
      gn += d[j] * w[j] * ((v[j] - mean) * rstd);
    }
  }
  const float mean_g = block_sum(g, warps) / columns, mean_gn = block_sum(gn, warps) / columns;
  for (i64 i = threadIdx.x * kPack; i < c.cols; i += blockDim.x * kPack) {
    float v[kPack], d[kPack], w[kPack], sum[kPack];
    const Pack pack = pack_at(i, c.cols, c.wide);
    load(v, x + i, pack);
    load(d, dy + i, pack);
    load_or(w, 1, c.w, i, pack);
    load(sum, c.dx.at(row, i), pack);
    for (int j = 0; j < kPack; ++j)
      sum[j] += math::layer_norm_slope(d[j], (v[j] - mean) * rstd, w[j], rstd, mean_g, mean_gn);
    store(c.dx.at(row, i), sum, pack);
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
    launch("layer_norm", a_block_for_each_row(queue, x.rows, x.cols, 512), norm<T>,
           Norm<T>{Rows<T>(y), Rows<T>(x), data_of<const T>(op.w), data_of<const T>(op.b),
                   data_of<float>(op.mean), data_of<float>(op.rstd), x.cols, op.eps, wide({y, x, w, b})});
  });
}

void compute(const op::LayerNormGrad& op, const Queue& queue) {
  const View dx = view_of(op.dx), dy = view_of(op.dy), x = view_of(op.x), w = view_of(op.w);
  const float *mean = data_of<const float>(op.mean), *rstd = data_of<const float>(op.rstd);
  with_float(x.type, [&](auto t) {
    using T = decltype(t);
    if (dx.data && x.rows > 0)
      launch("layer_norm_grad", a_block_for_each_row(queue, x.rows, x.cols, 512), norm_dx<T>,
             Dx<T>{Rows<T>(dx), Rows<T>(dy), Rows<T>(x), data_of<const T>(op.w), mean, rstd, x.cols,
                   wide({dx, dy, x, w})});
    if (op.dw)
      add_column_sums(queue.stream, data_of<float>(op.dw), x,
                      Dw<T>{Rows<T>(dy), Rows<T>(x), mean, rstd, wide({dy, x})});
    if (op.db) add_column_sums(queue.stream, data_of<float>(op.db), dy, Elements<T>{Rows<T>(dy), wide(dy)});
  });
}

}  // namespace ft::cuda
