// Cross-entropy of rows of logits, which may become their gradient in place: one block for each row, two
// sweeps over it. The first keeps a running maximum and the sum of powers relative to it (Milakov and
// Gimelshein 2018).
#include "engine/cuda/kernels/device.cuh"
#include "engine/cuda/kernels/kernels.h"
#include "engine/cuda/kernels/row_blocks.cuh"
#include "engine/ops/math.h"

namespace ft::cuda {
namespace {

constexpr float kLog2e = static_cast<float>(math::kLog2e);
constexpr float kLowest = -__builtin_huge_valf();

template <class T>
struct Call {
  float* loss;
  Rows<T> logits;
  i64 cols;
  const std::int32_t* targets;
  const float* weights;  // null: all are 1
  float scale, smoothing, cap;
  bool gradient, wide;
  std::int32_t* wrong;
};

// exp(x - top), 0 for what is minus infinity even where top is.
__device__ inline float power(float x, float top) {
  return x == kLowest ? 0 : power_of_2((x - top) * kLog2e);
}

struct Softmax {
  float top, total, sum;  // of exp(x - top); of x
};

template <class T>
__device__ Softmax sweep(const T* p, const Call<T>& c) {
  float top = kLowest, total = 0, sum = 0;
  for (i64 i = threadIdx.x * kPack; i < c.cols; i += blockDim.x * kPack) {
    float v[kPack];
    const Pack pack = pack_at(i, c.cols, c.wide);
    load(v, p + i, pack);
    float larger = top;
    for (int j = 0; j < pack.count; ++j) larger = fmaxf(larger, v[j]);  // passes over a NaN; the sums do not
    total *= power(top, larger);
    for (int j = 0; j < pack.count; ++j) {
      total += power(v[j], larger);
      sum += v[j];
    }
    top = larger;
  }
  float* warps = shared_memory<RowShared>().warps;
  const float all = block_largest(top, warps);
  total = block_sum(total * power(top, all), warps);
  return {all, total, c.smoothing == 0 ? 0 : block_sum(sum, warps)};
}

template <class T>
__global__ void __launch_bounds__(1024) cross_entropy_row(Call<T> c) {
  const i64 row = blockIdx.x, target = c.targets[row];
  T* p = c.logits.at(row);
  if (target < 0 || target >= c.cols) {
    if (threadIdx.x == 0) *c.wrong = static_cast<std::int32_t>(Wrong::target);
    return;
  }
  const float logit = to_float(p[target]), e = c.smoothing, n = static_cast<float>(c.cols);
  const Softmax s = sweep(p, c);  // all have read the target's logit before anyone passes its barriers
  if (threadIdx.x == 0) {
    const double lse = static_cast<double>(s.top) + log(static_cast<double>(s.total));
    c.loss[row] = static_cast<float>(math::smoothed_loss<double>(lse, logit, s.sum / n, e));
  }
  if (!c.gradient) return;
  // scale (softmax - (1 - e) onehot - e / V)
  const float scale = c.weights ? c.scale * c.weights[row] : c.scale;
  const float factor = scale / s.total, even = scale * e / n;
  for (i64 i = threadIdx.x * kPack; i < c.cols; i += blockDim.x * kPack) {
    float v[kPack];
    const Pack pack = pack_at(i, c.cols, c.wide);
    load(v, p + i, pack);
    for (int j = 0; j < kPack; ++j) {
      const float slope = c.cap > 0 ? math::soft_cap_slope(v[j] / c.cap) : 1;
      v[j] = power(v[j], s.top) * factor - even;
      if (i + j == target) v[j] -= scale * (1 - e);
      v[j] *= slope;
    }
    store(p + i, v, pack);
  }
}

}  // namespace

void compute(const op::CrossEntropy& op, const Queue& queue) {
  const View logits = view_of(op.logits);
  if (logits.rows == 0) return;
  with_float(logits.type, [&](auto t) {
    using T = decltype(t);
    launch("cross_entropy", a_block_for_each_row(queue, logits.rows, logits.cols, 1024), cross_entropy_row<T>,
           Call<T>{data_of<float>(op.loss), Rows<T>(logits), logits.cols,
                   data_of<const std::int32_t>(op.targets), data_of<const float>(op.weights), op.scale,
                   op.smoothing, op.cap, op.gradient, wide(logits), queue.wrong});
  });
}

}  // namespace ft::cuda
