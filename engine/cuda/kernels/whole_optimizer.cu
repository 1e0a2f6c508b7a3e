// Parts of the steps of optimizers that use the gradient of a complete parameter.
#include "engine/cuda/kernels/columns.cuh"
#include "engine/cuda/kernels/kernels.h"
#include "engine/cuda/kernels/row_blocks.cuh"
#include "engine/cuda/kernels/step_each.cuh"

namespace ft::cuda {
namespace {

struct RowMeans {
  float* row;
  const float* grad;
  i64 rows, cols;
  float beta2, rest, eps, grad_scale;
  bool wide;
};

// Computes a row per block.
__global__ void __launch_bounds__(1024) row_means(RowMeans c) {
  for (i64 r = blockIdx.x; r < c.rows; r += gridDim.x) {
    const float* g = c.grad + r * c.cols;
    float sum = 0;
    for (i64 i = threadIdx.x * kPack; i < c.cols; i += blockDim.x * kPack) {
      float v[kPack];
      load(v, g + i, pack_at(i, c.cols, c.wide));
      for (const float e : v) sum += e * c.grad_scale * (e * c.grad_scale);
    }
    sum = block_sum(sum, shared_memory<RowShared>().warps);
    if (threadIdx.x == 0) c.row[r] = c.beta2 * c.row[r] + c.rest * (sum / static_cast<float>(c.cols) + c.eps);
  }
}

struct Times {
  float* y;
  float by;
  __device__ void operator()(i64, i64 i, Pack pack) const {
    float v[kPack];
    load(v, y + i, pack);
    for (float& e : v) e *= by;
    store(y + i, v, pack);
  }
};

// Squares of the gradient, for add_column_sums().
struct Squares {
  const float* grad;
  i64 cols;
  float share, eps, grad_scale;
  bool wide;
  __device__ void operator()(float (&v)[kPack], i64 row, i64 column, Pack pack) const {
    load(v, grad + row * cols + column, pack);
    for (float& e : v) {
      const float g = e * grad_scale;
      e = (g * g + eps) * share;
    }
  }
};

struct Factored {
  float* grad;
  const float *row, *col;
  const double* row_sum;
  i64 rows, cols;
  float grad_scale;
  __device__ void operator()(i64 r, i64 column, Pack pack) const {
    float* at = grad + r * cols + column;
    const double mean = *row_sum / static_cast<double>(rows);
    const auto factor = static_cast<float>(grad_scale / ::sqrt(row[r] / mean));
    float g[kPack], c[kPack];
    load(g, at, pack);
    load(c, col + column, {pack.count, false});
    for (int j = 0; j < kPack; ++j) g[j] = j < pack.count ? g[j] * factor / sqrtf(c[j]) : 0;
    store(at, g, pack);
  }
};

template <class To, class From>
struct Scaled {
  To* y;
  const From* x;
  float by;
  const double* squares;  // null: none
  double least;
  __device__ void operator()(i64, i64 i, Pack pack) const {
    To over{};
    round_to(over, squares ? steps::divisor(*squares, least) : 1.0f);
    float v[kPack];
    load(v, x + i, pack);
    for (float& e : v) e = e * by / widened(over);
    store(y + i, v, pack);
  }
};

template <class From>
struct Descent {
  float* master;
  const From* update;
  double keep, rate;
  const double* squares;  // null: none
  double count, threshold;
  __device__ void operator()(i64, i64 i, Pack pack) const {
    const double over = squares ? steps::shortened(*squares, count, threshold) : 1;
    const auto kept = static_cast<float>(keep), times = static_cast<float>(-rate / over);
    float p[kPack], u[kPack];
    load(p, master + i, pack);
    load(u, update + i, pack);
    for (int j = 0; j < kPack; ++j) p[j] = math::fma(p[j], kept, u[j] * times);
    store(master + i, p, pack);
  }
};

}  // namespace

void compute(const op::FactoredMeans& op, const Queue& queue) {
  const View grad = view_of(op.grad);
  if (grad.rows == 0 || grad.cols == 0) return;
  const auto* g = data_of<const float>(op.grad);
  const float beta2 = static_cast<float>(op.beta2), rest = static_cast<float>(1 - op.beta2),
              eps = static_cast<float>(op.eps);
  launch(
      "row_means", a_block_for_each_row(queue, grad.rows, grad.cols, 1024), row_means,
      RowMeans{data_of<float>(op.row), g, grad.rows, grad.cols, beta2, rest, eps, op.grad_scale, wide(grad)});
  run_each_pack("column_means", queue.stream, {row_of(op.col)}, Times{data_of<float>(op.col), beta2});
  const auto share = static_cast<float>((1 - op.beta2) / static_cast<double>(grad.rows));
  add_column_sums(queue.stream, data_of<float>(op.col), grad,
                  Squares{g, grad.cols, share, eps, op.grad_scale, wide(grad)});
}

void compute(const op::FactoredUpdate& op, const Queue& queue) {
  const View grad = view_of(op.grad);
  if (grad.rows == 0) return;
  run_each_pack("factored_update", queue.stream, grad.rows, grad.cols, wide(grad),
                Factored{data_of<float>(op.grad), data_of<const float>(op.row), data_of<const float>(op.col),
                         data_of<const double>(op.row_sum), grad.rows, grad.cols, op.grad_scale});
}

void compute(const op::RootUpdate& op, const Queue& queue) {
  step_each("root_update", {op.v, op.grad}, {}, op.grad, queue, op.scalars());
}

void compute(const op::MuonMomentum& op, const Queue& queue) {
  step_each("muon_momentum", {op.m, op.grad}, {}, op.grad, queue, op.scalars());
}

void compute(const op::Scale& op, const Queue& queue) {
  with_float(op.y.dtype, [&](auto to) {
    with_float(op.x.dtype, [&](auto from) {
      run_each_pack(
          "scale", queue.stream, {row_of(op.y), row_of(op.x)},
          Scaled<decltype(to), decltype(from)>{
              data_of<decltype(to)>(op.y), data_of<const decltype(from)>(op.x), static_cast<float>(op.by),
              op.squares ? data_of<const double>(op.squares) : nullptr, op.least});
    });
  });
}

void compute(const op::Descend& op, const Queue& queue) {
  with_float(op.update.dtype, [&](auto from) {
    run_each_pack("descend", queue.stream, {row_of(op.master), row_of(op.update)},
                  Descent<decltype(from)>{
                      data_of<float>(op.master), data_of<const decltype(from)>(op.update), op.keep, op.rate,
                      op.squares ? data_of<const double>(op.squares) : nullptr, op.count, op.threshold});
  });
}

}  // namespace ft::cuda
