// RMSNorm and the gradient of its input: one block for each row.
#include "engine/cuda/kernels/device.cuh"
#include "engine/ops/math.h"

namespace ft::cuda {
namespace {

struct Shared {
  float warps[32];
};

template <class T>
struct Norm {
  Rows<T> y, x;
  const T* w;
  float* rstd;
  i64 cols;
  float eps;
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
  squares = block_sum(squares, shared_memory<Shared>().warps);
  const float rstd = 1 / sqrtf(squares / static_cast<float>(c.cols) + c.eps);
  if (threadIdx.x == 0) c.rstd[row] = rstd;
  for (i64 i = threadIdx.x * kPack; i < c.cols; i += blockDim.x * kPack) {
    float v[kPack], w[kPack];
    const Pack pack = pack_at(i, c.cols, c.wide);
    load(v, x + i, pack);
    load(w, c.w + i, pack);
    for (int j = 0; j < kPack; ++j) v[j] = v[j] * rstd * w[j];
    store(c.y.at(row, i), v, pack);
  }
}

template <class T>
struct Dx {
  Rows<T> dx, dy, x;
  const T* w;
  const float* rstd;
  i64 cols;
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
    for (int j = 0; j < kPack; ++j) dot += d[j] * w[j] * v[j];
  }
  dot = block_sum(dot, shared_memory<Shared>().warps);
  const float rstd = c.rstd[row], pull = dot * rstd * rstd * rstd / static_cast<float>(c.cols);
  for (i64 i = threadIdx.x * kPack; i < c.cols; i += blockDim.x * kPack) {
    float v[kPack], d[kPack], w[kPack], sum[kPack];
    const Pack pack = pack_at(i, c.cols, c.wide);
    load(v, x + i, pack);
    load(d, dy + i, pack);
    load(w, c.w + i, pack);
    load(sum, c.dx.at(row, i), pack);
    for (int j = 0; j < kPack; ++j) sum[j] += math::rms_norm_slope(d[j], v[j], w[j], rstd, pull);
    store(c.dx.at(row, i), sum, pack);
  }
}

View vector_of(const void* w, DType type) { return {const_cast<void*>(w), type, 1, 0, 0}; }

}  // namespace

void rms_norm(cudaStream_t stream, const View& y, float* rstd, const View& x, const void* w, float eps) {
  if (x.rows == 0) return;
  with_float(x.type, [&](auto t) {
    using T = decltype(t);
    const bool all_wide = wide({y, x, vector_of(w, x.type)});
    launch("rms_norm", {stream, dim3(at_most(x.rows, kMostGridX)), row_threads(x.cols, 512), sizeof(Shared)},
           norm<T>, Norm<T>{Rows<T>(y), Rows<T>(x), static_cast<const T*>(w), rstd, x.cols, eps, all_wide});
  });
}

void rms_norm_dx(cudaStream_t stream, const NormGrad& g) {
  if (g.x.rows == 0) return;
  with_float(g.x.type, [&](auto t) {
    using T = decltype(t);
    const bool all_wide = wide({g.dx, g.dy, g.x, vector_of(g.w, g.x.type)});
    launch("rms_norm_grad",
           {stream, dim3(at_most(g.x.rows, kMostGridX)), row_threads(g.x.cols, 512), sizeof(Shared)},
           norm_dx<T>,
           Dx<T>{Rows<T>(g.dx), Rows<T>(g.dy), Rows<T>(g.x), static_cast<const T*>(g.w), g.rstd, g.x.cols,
                 all_wide});
  });
}

}  // namespace ft::cuda
