// Sums of f32 in f64, and the optimizers' updates: dense f32.
#include "engine/cuda/kernels/each_pack.cuh"
#include "engine/cuda/kernels/kernels.h"
#include "engine/ops/steps.h"

namespace ft::cuda {
namespace {

constexpr int kThreads = 256;

struct Shared {
  double warps[32];
};

template <bool squares>
__global__ void __launch_bounds__(kThreads) sum_part(double* partial, const float* x, i64 n, bool wide) {
  double sum = 0;
  const i64 step = static_cast<i64>(gridDim.x) * kThreads * kPack;
  for (i64 i = (static_cast<i64>(blockIdx.x) * kThreads + threadIdx.x) * kPack; i < n; i += step) {
    float v[kPack];
    load(v, x + i, pack_at(i, n, wide));
    for (const float e : v) sum += squares ? static_cast<double>(e) * e : static_cast<double>(e);
  }
  sum = block_sum(sum, shared_memory<Shared>().warps);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

__global__ void __launch_bounds__(kThreads) add_parts(double* y, const double* partial, int parts) {
  double sum = 0;
  for (int i = static_cast<int>(threadIdx.x); i < parts; i += kThreads) sum += partial[i];
  sum = block_sum(sum, shared_memory<Shared>().warps);
  if (threadIdx.x == 0) *y += sum;
}

// All elements of a dense tensor as one row.
View row_of(const Tensor& t) { return {t.data, t.dtype, 1, t.numel(), t.numel()}; }

template <bool squares>
void add_up(const Tensor& y, const Tensor& x, const Queue& q) {
  const i64 n = x.numel();
  if (n == 0) return;
  const unsigned parts = at_most(ceil_div(n, kThreads * kPack), kSumParts);
  launch("sum", {q.stream, dim3(parts), kThreads, sizeof(Shared)}, sum_part<squares>, q.partial,
         data_of<const float>(x), n, wide(row_of(x)));
  launch("sum", {q.stream, dim3(1), kThreads, sizeof(Shared)}, add_parts, data_of<double>(y), q.partial,
         static_cast<int>(parts));
}

struct AdamW {
  float *master, *m, *v;
  const float* grad;
  math::AdamWStep how;
  __device__ void operator()(i64, i64 i, Pack pack) const {
    float p[kPack], pm[kPack], pv[kPack], g[kPack];
    load(p, master + i, pack);
    load(pm, m + i, pack);
    load(pv, v + i, pack);
    load(g, grad + i, pack);
    for (int j = 0; j < kPack; ++j) steps::adamw(p[j], pm[j], pv[j], g[j], how);
    store(master + i, p, pack);
    store(m + i, pm, pack);
    store(v + i, pv, pack);
  }
};

struct Lion {
  float *master, *m;
  const float* grad;
  math::LionStep how;
  __device__ void operator()(i64, i64 i, Pack pack) const {
    float p[kPack], pm[kPack], g[kPack];
    load(p, master + i, pack);
    load(pm, m + i, pack);
    load(g, grad + i, pack);
    for (int j = 0; j < kPack; ++j) steps::lion(p[j], pm[j], g[j], how);
    store(master + i, p, pack);
    store(m + i, pm, pack);
  }
};

struct Sgd {
  float* master;
  const float* grad;
  float lr, decay, grad_scale;
  __device__ void operator()(i64, i64 i, Pack pack) const {
    float p[kPack], g[kPack];
    load(p, master + i, pack);
    load(g, grad + i, pack);
    for (int j = 0; j < kPack; ++j) p[j] = steps::sgd(p[j], g[j], lr, decay, grad_scale);
    store(master + i, p, pack);
  }
};

}  // namespace

void compute(const op::Sum& op, const Queue& queue) { add_up<false>(op.y, op.x, queue); }
void compute(const op::SumSquares& op, const Queue& queue) { add_up<true>(op.y, op.x, queue); }

void compute(const op::AdamW& op, const Queue& queue) {
  run_each_pack("adamw", queue.stream, {row_of(op.master), row_of(op.m), row_of(op.v), row_of(op.grad)},
                AdamW{data_of<float>(op.master), data_of<float>(op.m), data_of<float>(op.v),
                      data_of<const float>(op.grad), op.scalars()});
}

void compute(const op::Lion& op, const Queue& queue) {
  run_each_pack(
      "lion", queue.stream, {row_of(op.master), row_of(op.m), row_of(op.grad)},
      Lion{data_of<float>(op.master), data_of<float>(op.m), data_of<const float>(op.grad), op.scalars()});
}

void compute(const op::Sgd& op, const Queue& queue) {
  run_each_pack(
      "sgd", queue.stream, {row_of(op.master), row_of(op.grad)},
      Sgd{data_of<float>(op.master), data_of<const float>(op.grad), op.lr, op.decay, op.grad_scale});
}

}  // namespace ft::cuda
