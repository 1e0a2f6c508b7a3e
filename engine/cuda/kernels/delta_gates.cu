// The gates of the gated delta rule and their gradient.
#include "engine/cuda/kernels/device.cuh"
#include "engine/cuda/kernels/kernels.h"
#include "engine/ops/math.h"

namespace ft::cuda {
namespace {

constexpr int kThreads = 256;

template <class T>
struct Gates {
  Rows<T> a, b, da, db;
  Rows<float> g, beta, dg, dbeta;
  const float *a_log, *bias;
  float *da_log, *dbias;
  i64 rows, heads;

  __device__ float input(i64 r, i64 h) const { return widened(*a.at(r, h)) + bias[h]; }
  __device__ float sigmoid_of_b(i64 r, i64 h) const { return math::sigmoid(widened(*b.at(r, h))); }
};

template <class T>
__global__ void __launch_bounds__(kThreads) gates(Gates<T> c) {
  const i64 i = static_cast<i64>(blockIdx.x) * kThreads + threadIdx.x, r = i / c.heads, h = i % c.heads;
  if (r >= c.rows) return;
  *c.g.at(r, h) = -expf(c.a_log[h]) * math::softplus(c.input(r, h));
  *c.beta.at(r, h) = c.sigmoid_of_b(r, h);
}

// A block computes one head.
template <class T>
__global__ void __launch_bounds__(kThreads) gates_back(Gates<T> c) {
  const i64 h = blockIdx.x;
  const float slope = -expf(c.a_log[h]);
  double to_log = 0, to_bias = 0;
  for (i64 r = threadIdx.x; r < c.rows; r += kThreads) {
    const float x = c.input(r, h), d = *c.dg.at(r, h), beta = c.sigmoid_of_b(r, h);
    const float own = d * slope * math::sigmoid(x);
    round_to(*c.da.at(r, h), own);
    round_to(*c.db.at(r, h), *c.dbeta.at(r, h) * beta * (1 - beta));
    to_bias += own;
    to_log += d * slope * math::softplus(x);
  }
  to_log = block_sum(to_log, shared_memory<double[32]>());
  to_bias = block_sum(to_bias, shared_memory<double[32]>());
  if (threadIdx.x != 0) return;
  if (c.da_log) c.da_log[h] += static_cast<float>(to_log);
  if (c.dbias) c.dbias[h] += static_cast<float>(to_bias);
}

}  // namespace

void compute(const op::DeltaGates& op, const Queue& queue) {
  const View a = view_of(op.a), none{};
  if (a.rows == 0) return;
  with_float(a.type, [&](auto t) {
    using T = decltype(t);
    launch("delta_gates",
           {queue.stream, dim3(static_cast<unsigned>(ceil_div(a.rows * a.cols, kThreads))), kThreads},
           gates<T>,
           Gates<T>{Rows<T>(a), Rows<T>(view_of(op.b)), Rows<T>(none), Rows<T>(none),
                    Rows<float>(view_of(op.g)), Rows<float>(view_of(op.beta)), Rows<float>(none),
                    Rows<float>(none), data_of<const float>(op.a_log), data_of<const float>(op.dt_bias),
                    nullptr, nullptr, a.rows, a.cols});
  });
}

void compute(const op::DeltaGatesGrad& op, const Queue& queue) {
  const View a = view_of(op.a), none{};
  if (a.rows == 0) return;
  with_float(a.type, [&](auto t) {
    using T = decltype(t);
    launch("delta_gates_grad",
           {queue.stream, dim3(static_cast<unsigned>(a.cols)), kThreads, 32 * sizeof(double)}, gates_back<T>,
           Gates<T>{Rows<T>(a), Rows<T>(view_of(op.b)), Rows<T>(view_of(op.da)), Rows<T>(view_of(op.db)),
                    Rows<float>(none), Rows<float>(none), Rows<float>(view_of(op.dg)),
                    Rows<float>(view_of(op.dbeta)), data_of<const float>(op.a_log),
                    data_of<const float>(op.dt_bias), data_of<float>(op.da_log), data_of<float>(op.ddt_bias),
                    a.rows, a.cols});
  });
}

}  // namespace ft::cuda
