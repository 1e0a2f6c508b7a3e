// Merges attention over some keys with attention over other keys, or with a sink: one warp for each row and
// head.
#include "engine/cuda/kernels/device.cuh"
#include "engine/cuda/kernels/kernels.h"
#include "engine/ops/math.h"

namespace ft::cuda {
namespace {

constexpr int kWarps = 8;

template <class T>
struct Call {
  Rows<float> y, lse;
  Rows<T> other;
  Rows<float> other_lse;
  i64 rows;
  int width;
};

template <class T>
__global__ void __launch_bounds__(32 * kWarps) merge_attention(Call<T> c) {
  const i64 row = static_cast<i64>(blockIdx.x) * kWarps + threadIdx.x / 32, head = blockIdx.y;
  if (row >= c.rows) return;
  const int lane = static_cast<int>(threadIdx.x % 32);
  const math::SoftmaxShares s = math::softmax_shares(*c.lse.at(head, row), *c.other_lse.at(head, row));
  for (int d = lane; d < c.width; d += 32) {
    float& y = *c.y.at(row, head * c.width + d);
    y = s.first * y + s.second * widened(*c.other.at(row, head * c.width + d));
  }
  __syncwarp();  // all lanes have read lse
  if (lane == 0) *c.lse.at(head, row) = s.lse;
}

template <class T>
struct Sinks {
  Rows<T> y, dy;
  Rows<float> lse;
  const T* sinks;
  float* dsinks;
  i64 rows;
  int width;
};

template <class T>
__global__ void __launch_bounds__(32 * kWarps) add_sinks(Sinks<T> c) {
  const i64 row = static_cast<i64>(blockIdx.x) * kWarps + threadIdx.x / 32, head = blockIdx.y;
  if (row >= c.rows) return;
  const int lane = static_cast<int>(threadIdx.x % 32);
  const math::SoftmaxShares s = math::softmax_shares(*c.lse.at(head, row), widened(c.sinks[head]));
  for (int d = lane; d < c.width; d += 32) {
    T& y = *c.y.at(row, head * c.width + d);
    round_to(y, s.first * widened(y));
  }
  __syncwarp();  // all lanes have read lse
  if (lane == 0) *c.lse.at(head, row) = s.lse;
}

constexpr int kRowWarps = 32;
struct WarpSums {
  float of[kRowWarps];
};

// A block sums a head's rows: each warp every 32nd row.
template <class T>
__global__ void __launch_bounds__(32 * kRowWarps) sinks_grad(Sinks<T> c) {
  const i64 head = blockIdx.x;
  const int lane = static_cast<int>(threadIdx.x % 32);
  const float sink = widened(c.sinks[head]);
  float sum = 0;
  for (i64 row = threadIdx.x / 32; row < c.rows; row += kRowWarps) {
    float dot = 0;
    for (int d = lane; d < c.width; d += 32)
      dot += widened(*c.dy.at(row, head * c.width + d)) * widened(*c.y.at(row, head * c.width + d));
    sum += math::sink_share(sink, *c.lse.at(head, row)) * dot;
  }
  const float all = block_sum(sum, shared_memory<WarpSums>().of);
  if (threadIdx.x == 0) c.dsinks[head] -= all;
}

}  // namespace

void compute(const op::MergeAttention& op, const Queue& queue) {
  const View y = view_of(op.y), other = view_of(op.other), lse = view_of(op.lse);
  if (y.rows == 0) return;
  const dim3 grid(static_cast<unsigned>(ceil_div(y.rows, kWarps)), static_cast<unsigned>(lse.rows));
  with_float(other.type, [&](auto t) {
    using T = decltype(t);
    launch("merge_attention", {queue.stream, grid, 32 * kWarps}, merge_attention<T>,
           Call<T>{Rows<float>(y), Rows<float>(lse), Rows<T>(other), Rows<float>(view_of(op.other_lse)),
                   y.rows, static_cast<int>(y.cols / lse.rows)});
  });
}

void compute(const op::AttentionSinks& op, const Queue& queue) {
  const View y = view_of(op.y), lse = view_of(op.lse);
  if (y.rows == 0) return;
  const dim3 grid(static_cast<unsigned>(ceil_div(y.rows, kWarps)), static_cast<unsigned>(lse.rows));
  with_float(y.type, [&](auto t) {
    using T = decltype(t);
    launch("attention_sinks", {queue.stream, grid, 32 * kWarps}, add_sinks<T>,
           Sinks<T>{Rows<T>(y), Rows<T>(y), Rows<float>(lse), data_of<const T>(op.sinks), nullptr, y.rows,
                    static_cast<int>(y.cols / lse.rows)});
  });
}

void compute(const op::AttentionSinksGrad& op, const Queue& queue) {
  const View y = view_of(op.y), lse = view_of(op.lse);
  if (y.rows == 0) return;
  with_float(y.type, [&](auto t) {
    using T = decltype(t);
    launch("attention_sinks_grad",
           {queue.stream, static_cast<unsigned>(lse.rows), 32 * kRowWarps, sizeof(WarpSums)}, sinks_grad<T>,
           Sinks<T>{Rows<T>(y), Rows<T>(view_of(op.dy)), Rows<float>(lse), data_of<const T>(op.sinks),
                    data_of<float>(op.dsinks), y.rows, static_cast<int>(y.cols / lse.rows)});
  });
}

}  // namespace ft::cuda
