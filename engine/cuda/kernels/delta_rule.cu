// The gated delta rule, its gradient and its gates. A block computes a key head, with some of the sequences:
// it is the executor of engine/ops/delta_chunk.h whose matrices are in global memory.
#include "engine/cuda/kernels/device.cuh"
#include "engine/cuda/kernels/kernels.h"
#include "engine/ops/delta_chunk.h"

namespace ft::cuda {
namespace {

constexpr int kThreads = 256;

// The column of a thread.
struct Column {
  __device__ float load(const float* p) const { return *p; }
  __device__ void store(float* p, float x) const { *p = x; }
  __device__ float all(float x) const { return x; }
  __device__ float before(float x, i64 n) const { return n > 0 ? x : 0; }
};

struct Block {
  __device__ void each(i64 rows, i64 columns, const auto& f) const {
    for (i64 i = threadIdx.x; i < rows * columns; i += kThreads) f(Column{}, i / columns, i % columns);
    __syncthreads();
  }
  __device__ void transpose(const DeltaMatrix& y, const DeltaMatrix& x, i64 rows, i64 columns) const {
    each(columns, rows, [&](auto, i64 c, i64 r) { y(c, r) = x(r, c); });
  }
  __device__ void rows(i64 n, const auto& f) const {
    for (i64 r = threadIdx.x; r < n; r += kThreads) f(r);
    __syncthreads();
  }
  template <class T>
  __device__ void load(const DeltaMatrix& y, const T* x, i64 stride, i64 rows, i64 columns) const {
    each(rows, columns, [&](auto, i64 r, i64 c) { y(r, c) = widened(x[r * stride + c]); });
  }
  template <class T>
  __device__ void store(T* y, i64 stride, const DeltaMatrix& x, i64 rows, i64 columns) const {
    each(rows, columns, [&](auto, i64 r, i64 c) { round_to(y[r * stride + c], x(r, c)); });
  }
  __device__ float dot(const float* a, const float* b, i64 n) const {
    float sum = 0;
    for (i64 i = 0; i < n; ++i) sum += a[i] * b[i];
    return sum;
  }
  __device__ float exp(float x) const { return expf(x); }
  __device__ void decays(const DeltaMatrix& y, const float* sum, i64 n) const {
    each(n, n, [&](auto, i64 r, i64 c) { y(r, c) = expf(c <= r ? sum[r] - sum[c] : 0); });
  }
  // A thread computes four rows and four columns at a time.
  __device__ void product(const DeltaMatrix& y, i64 m, i64 n, const DeltaLeft& a, const DeltaMatrix& b,
                          i64 depth, bool add) const {
    constexpr i64 kSide = 4;
    const i64 across = (n + kSide - 1) / kSide, tiles = (m + kSide - 1) / kSide * across;
    for (i64 tile = threadIdx.x; tile < tiles; tile += kThreads) {
      const i64 row = tile / across * kSide, column = tile % across * kSide;
      float sum[kSide][kSide] = {};
      for (i64 p = 0; p < depth; ++p)
#pragma unroll
        for (i64 i = 0; i < kSide; ++i) {
          const float left = row + i < m ? a.data[(row + i) * a.row + p * a.column] : 0;
#pragma unroll
          for (i64 j = 0; j < kSide; ++j) sum[i][j] += left * b(p, column + j);  // rows have whole vectors
        }
      for (i64 i = 0; i < kSide && row + i < m; ++i)
        for (i64 j = 0; j < kSide && column + j < n; ++j)
          y(row + i, column + j) = sum[i][j] + (add ? y(row + i, column + j) : 0);
    }
    __syncthreads();
  }
  // A thread solves a column.
  __device__ void solve(const DeltaMatrix& a, const DeltaMatrix& x, i64 m, i64 n) const {
    rows(n, [&](i64 column) {
      for (i64 r = 1; r < m; ++r) {
        float sum = x(r, column);
        for (i64 c = 0; c < r; ++c) sum -= a(r, c) * x(c, column);
        x(r, column) = sum;
      }
    });
  }
  __device__ void solve_back(const DeltaMatrix& a, const DeltaMatrix& x, i64 m, i64 n) const {
    rows(n, [&](i64 column) {
      for (i64 r = m - 2; r >= 0; --r) {
        float sum = x(r, column);
        for (i64 c = r + 1; c < m; ++c) sum -= a(c, r) * x(c, column);
        x(r, column) = sum;
      }
    });
  }
};

template <class T>
__global__ void __launch_bounds__(kThreads) delta_rule(DeltaOperands x) {
  Block block;
  DeltaHead<T, Block>(block, x, blockIdx.x).forward();
}

template <class T>
__global__ void __launch_bounds__(kThreads) delta_rule_back(DeltaOperands x) {
  Block block;
  DeltaHead<T, Block>(block, x, blockIdx.x).backward();
}

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

void compute(const op::DeltaRule& op, const Queue& queue) {
  const DeltaOperands x = operands_of(op);
  if (x.q.rows == 0) return;
  with_float(x.q.type, [&](auto t) {
    launch("delta_rule", {queue.stream, dim3(static_cast<unsigned>(x.work.rows)), kThreads},
           delta_rule<decltype(t)>, x);
  });
}

void compute(const op::DeltaRuleGrad& op, const Queue& queue) {
  const DeltaOperands x = operands_of(op);
  if (x.q.rows == 0) return;
  with_float(x.q.type, [&](auto t) {
    launch("delta_rule_grad", {queue.stream, dim3(static_cast<unsigned>(x.work.rows)), kThreads},
           delta_rule_back<decltype(t)>, x);
  });
}

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
