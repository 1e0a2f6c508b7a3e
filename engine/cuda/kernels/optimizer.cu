// Sums of f32 in f64, and the optimizers' updates: dense f32.
#include "engine/cuda/kernels/each_pack.cuh"
#include "engine/ops/math.h"

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

template <bool squares>
void add_up(cudaStream_t stream, double* y, const float* x, i64 n, double* partial) {
  if (n == 0) return;
  const unsigned parts = at_most(ceil_div(n, kThreads * kPack), kSumParts);
  const View all{const_cast<float*>(x), DType::f32, 1, n, n};
  launch("sum", {stream, dim3(parts), kThreads, sizeof(Shared)}, sum_part<squares>, partial, x, n, wide(all));
  launch("sum", {stream, dim3(1), kThreads, sizeof(Shared)}, add_parts, y, partial, static_cast<int>(parts));
}

struct AdamWBody {
  AdamWArrays a;
  math::AdamWStep how;
  __device__ void operator()(i64, i64 i, Pack pack) const {
    float p[kPack], m[kPack], v[kPack], g[kPack];
    load(p, a.master + i, pack);
    load(m, a.m + i, pack);
    load(v, a.v + i, pack);
    load(g, a.grad + i, pack);
    for (int j = 0; j < kPack; ++j) math::adamw(p[j], m[j], v[j], g[j], how);
    store(a.master + i, p, pack);
    store(a.m + i, m, pack);
    store(a.v + i, v, pack);
  }
};

struct SgdBody {
  Sgd s;
  __device__ void operator()(i64, i64 i, Pack pack) const {
    float p[kPack], g[kPack];
    load(p, s.master + i, pack);
    load(g, s.grad + i, pack);
    for (int j = 0; j < kPack; ++j) p[j] = math::sgd(p[j], g[j], s.lr, s.decay, s.grad_scale);
    store(s.master + i, p, pack);
  }
};

View vector_of(const float* p, i64 n) { return {const_cast<float*>(p), DType::f32, 1, n, n}; }

}  // namespace

void sum(cudaStream_t stream, double* y, const float* x, std::int64_t n, double* partial) {
  add_up<false>(stream, y, x, n, partial);
}
void sum_squares(cudaStream_t stream, double* y, const float* x, std::int64_t n, double* partial) {
  add_up<true>(stream, y, x, n, partial);
}

void adamw(cudaStream_t stream, const AdamWArrays& a, const math::AdamWStep& how) {
  run_each_pack("adamw", stream,
                {vector_of(a.master, a.n), vector_of(a.m, a.n), vector_of(a.v, a.n), vector_of(a.grad, a.n)},
                AdamWBody{a, how});
}

void sgd(cudaStream_t stream, const Sgd& s) {
  run_each_pack("sgd", stream, {vector_of(s.master, s.n), vector_of(s.grad, s.n)}, SgdBody{s});
}

}  // namespace ft::cuda
