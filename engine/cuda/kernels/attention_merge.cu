// Merges attention over some keys with attention over other keys: one warp for each row and head.
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

}  // namespace ft::cuda
