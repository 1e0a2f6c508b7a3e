// RMSNorm and its gradient: one block for each row.
#include "engine/cuda/kernels/columns.cuh"
#include "engine/cuda/kernels/kernels.h"
#include "engine/cuda/kernels/row_blocks.cuh"
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
  bool wide;
};

template <class T>
__global__ void __launch_bounds__(1024) norm(Norm<T> c) {
  const i64 row = blockIdx.x;
  const T* x = c.x.at(row);
  float squares = 0;
  for (i64 i = threadIdx.x * kPack; i < c.cols; i += blockDim.x * kPack) {
    float v[kPack];
    load(v, x + i, pack_at(i, c.cols, c.wide));
    for (const float e : v) squares += e * e;
  }
  squares = block_sum(squares, shared_memory<RowShared>().warps);
  const float rstd = 1 / sqrtf(squares / static_cast<float>(c.cols) + c.eps);
  if (threadIdx.x == 0) c.rstd[row] = rstd;
  for (i64 i = threadIdx.x * kPack; i < c.cols; i += blockDim.x * kPack) {
    float v[kPack], w[kPack];
    const Pack pack = pack_at(i, c.cols, c.wide);
    load(v, x + i, pack);
    load(w, c.w + i, pack);
    for (int j = 0; j < kPack; ++j) v[j] = v[j] * rstd * (c.offset + w[j]);
    store(c.y.at(row, i), v, pack);
  }
}

template <class T>
struct Dx {
  Rows<T> dx, dy, x;
  const T* w;
  const float* rstd;
  i64 cols;
  float offset;
  bool wide;
};

template <class T>
__global__ void __launch_bounds__(1024) norm_dx(Dx<T> c) {
  const i64 row = blockIdx.x;
  const T *x = c.x.at(row), *dy = c.dy.at(row);
  float dot = 0;
  for (i64 i = threadIdx.x * kPack; i < c.cols; i += blockDim.x * kPack) {
    float v[kPack], d[kPack], w[kPack];
    const Pack pack = pack_at(i, c.cols, c.wide);
    load(v, x + i, pack);
    load(d, dy + i, pack);
    load(w, c.w + i, pack);
    for (int j = 0; j < kPack; ++j) dot += d[j] * (c.offset + w[j]) * v[j];
  }
  dot = block_sum(dot, shared_memory<RowShared>().warps);
  const float rstd = c.rstd[row], pull = dot * rstd * rstd * rstd / static_cast<float>(c.cols);
  for (i64 i = threadIdx.x * kPack; i < c.cols; i += blockDim.x * kPack) {
    float v[kPack], d[kPack], w[kPack], sum[kPack];
    const Pack pack = pack_at(i, c.cols, c.wide);
    load(v, x + i, pack);
    load(d, dy + i, pack);
    load(w, c.w + i, pack);
    load(sum, c.dx.at(row, i), pack);
    for (int j = 0; j < kPack; ++j) sum[j] += math::rms_norm_slope(d[j], v[j], c.offset + w[j], rstd, pull);
    store(c.dx.at(row, i), sum, pack);
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
    launch("rms_norm", a_block_for_each_row(queue, x.rows, x.cols, 512), norm<T>,
           Norm<T>{Rows<T>(y), Rows<T>(x), data_of<const T>(op.w), data_of<float>(op.rstd), x.cols, op.eps,
                   op.offset, wide({y, x, w})});
  });
}

void compute(const op::RmsNormGrad& op, const Queue& queue) {
  const View dx = view_of(op.dx), dy = view_of(op.dy), x = view_of(op.x), w = view_of(op.w);
  const auto* rstd = data_of<const float>(op.rstd);
  with_float(x.type, [&](auto t) {
    using T = decltype(t);
    if (dx.data && x.rows > 0)
      launch("rms_norm_grad", a_block_for_each_row(queue, x.rows, x.cols, 512), norm_dx<T>,
             Dx<T>{Rows<T>(dx), Rows<T>(dy), Rows<T>(x), data_of<const T>(op.w), rstd, x.cols, op.offset,
                   wide({dx, dy, x, w})});
    if (op.dw)
      add_column_sums(queue.stream, data_of<float>(op.dw), x,
                      Dw<T>{Rows<T>(dy), Rows<T>(x), rstd, wide({dy, x})});
  });
}

}  // namespace ft::cuda
