// The short convolution along the tokens, with silu, and its gradient: a thread for each element.
#include "engine/cuda/kernels/device.cuh"
#include "engine/cuda/kernels/kernels.h"
#include "engine/ops/math.h"

namespace ft::cuda {
namespace {

constexpr int kThreads = 256;

template <class T>
struct Conv {
  Rows<T> x, y, memory;
  const T* w;
  const std::int32_t *first, *slot, *past;
  i64 rows, cols, taps;
  bool remembers;

  __device__ float weight(i64 column, i64 j) const { return widened(w[column * taps + j]); }
  // The input of tap j at a row.
  __device__ float input(i64 row, i64 column, i64 j) const {
    const i64 from = row - (taps - 1) + j;
    if (from >= first[row]) return widened(*x.at(from, column));
    if (!remembers || past[row] == 0) return 0;
    return widened(*memory.at(slot[row], (from - first[row] + taps - 1) * cols + column));
  }
  // The sum over the taps, before silu.
  __device__ float tapped(i64 row, i64 column) const {
    float sum = 0;
    for (i64 j = 0; j < taps; ++j) sum += weight(column, j) * input(row, column, j);
    return sum;
  }
};

template <class T>
__global__ void __launch_bounds__(kThreads) convolve(Conv<T> c) {
  const i64 column = static_cast<i64>(blockIdx.x) * kThreads + threadIdx.x;
  if (column >= c.cols) return;
  for (i64 row = blockIdx.y; row < c.rows; row += gridDim.y)
    round_to(*c.y.at(row, column), math::silu(c.tapped(row, column)).value);
}

// Keeps the last inputs of every sequence. The oldest go first, because they may come from the memory itself.
template <class T>
__global__ void __launch_bounds__(kThreads) remember(Conv<T> c) {
  const i64 column = static_cast<i64>(blockIdx.x) * kThreads + threadIdx.x;
  if (column >= c.cols) return;
  for (i64 row = blockIdx.y; row < c.rows; row += gridDim.y) {
    if (row + 1 < c.rows && c.first[row + 1] == c.first[row]) continue;
    for (i64 j = 1; j < c.taps; ++j)
      round_to(*c.memory.at(c.slot[row], (j - 1) * c.cols + column), c.input(row, column, j));
  }
}

template <class T>
struct ConvBack {
  Conv<T> conv;
  Rows<T> dx, dy;
  float* dw;
  // The gradient of the sum before silu.
  __device__ float slope(i64 row, i64 column) const {
    return widened(*dy.at(row, column)) * math::silu(conv.tapped(row, column)).slope;
  }
};

template <class T>
__global__ void __launch_bounds__(kThreads) convolve_back(ConvBack<T> c) {
  const Conv<T>& conv = c.conv;
  const i64 column = static_cast<i64>(blockIdx.x) * kThreads + threadIdx.x;
  if (column >= conv.cols) return;
  for (i64 row = blockIdx.y; row < conv.rows; row += gridDim.y) {
    float sum = 0;
    for (i64 j = 0; j < conv.taps && row + j < conv.rows && conv.first[row + j] == conv.first[row]; ++j)
      sum += conv.weight(column, conv.taps - 1 - j) * c.slope(row + j, column);
    round_to(*c.dx.at(row, column), sum);
  }
}

// A block has 32 columns; its warps share the rows, and their sums are added in order.
constexpr int kWarps = kThreads / 32;
struct WeightShared {
  float sums[op::kMostTaps][kWarps][32];
};

template <class T>
__global__ void __launch_bounds__(kThreads) add_weight_grads(ConvBack<T> c) {
  WeightShared& shared = shared_memory<WeightShared>();
  const Conv<T>& conv = c.conv;
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const i64 column = static_cast<i64>(blockIdx.x) * 32 + lane;
  float sums[op::kMostTaps] = {};
  for (i64 row = warp; row < conv.rows && column < conv.cols; row += kWarps) {
    const float d = c.slope(row, column);
    for (int j = 0; j < static_cast<int>(op::kMostTaps); ++j)
      if (j < conv.taps) sums[j] += d * conv.input(row, column, j);
  }
  for (int j = 0; j < static_cast<int>(op::kMostTaps); ++j) shared.sums[j][warp][lane] = sums[j];
  __syncthreads();
  if (warp > 0 || column >= conv.cols) return;
  for (i64 j = 0; j < conv.taps; ++j) {
    float total = 0;
    for (int of = 0; of < kWarps; ++of) total += shared.sums[j][of][lane];
    c.dw[column * conv.taps + j] += total;
  }
}

dim3 grid_of(const View& x) {
  return dim3(static_cast<unsigned>(ceil_div(x.cols, kThreads)), at_most(x.rows, kMostGridY));
}

}  // namespace

void compute(const op::CausalConv& op, const Queue& queue) {
  const View x = view_of(op.x), y = view_of(op.y), w = view_of(op.w), memory = view_of(op.memory);
  if (x.rows == 0) return;
  with_float(x.type, [&](auto t) {
    using T = decltype(t);
    const Conv<T> conv{Rows<T>(x),
                       Rows<T>(y),
                       Rows<T>(memory),
                       data_of<const T>(op.w),
                       data_of<const std::int32_t>(op.first),
                       data_of<const std::int32_t>(op.slot),
                       data_of<const std::int32_t>(op.past),
                       x.rows,
                       x.cols,
                       w.cols,
                       memory.data != nullptr};
    launch("causal_conv", {queue.stream, grid_of(x), kThreads}, convolve<T>, conv);
    if (conv.remembers) launch("causal_conv", {queue.stream, grid_of(x), kThreads}, remember<T>, conv);
  });
}

void compute(const op::CausalConvGrad& op, const Queue& queue) {
  const View x = view_of(op.x), dx = view_of(op.dx), dy = view_of(op.dy), w = view_of(op.w);
  if (x.rows == 0) return;
  with_float(x.type, [&](auto t) {
    using T = decltype(t);
    const ConvBack<T> back{
        {Rows<T>(x), Rows<T>(x), Rows<T>(View{}), data_of<const T>(op.w),
         data_of<const std::int32_t>(op.first), nullptr, nullptr, x.rows, x.cols, w.cols, false},
        Rows<T>(dx),
        Rows<T>(dy),
        data_of<float>(op.dw)};
    if (dx.data) launch("causal_conv_grad", {queue.stream, grid_of(x), kThreads}, convolve_back<T>, back);
    if (back.dw)
      launch(
          "causal_conv_grad",
          {queue.stream, dim3(static_cast<unsigned>(ceil_div(x.cols, 32))), kThreads, sizeof(WeightShared)},
          add_weight_grads<T>, back);
  });
}

}  // namespace ft::cuda
