// Cross-entropy of rows of logits, which may become their gradient in place: one block for each row, two
// sweeps over it. The first keeps a running maximum and the sum of powers relative to it (Milakov and
// Gimelshein 2018). Where a row's logits are columns of a longer one, the first sweep is LogitSums, and the
// second follows once the sums of all its columns are known.
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
  const float* sums;  // (parts, rows, 4); null: the logits are all the columns
  i64 parts, rows, first, classes;
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
__device__ Softmax sweep(const T* p, i64 cols, bool wide, bool sums) {
  float top = kLowest, total = 0, sum = 0;
  for (i64 i = threadIdx.x * kPack; i < cols; i += blockDim.x * kPack) {
    float v[kPack];
    const Pack pack = pack_at(i, cols, wide);
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
  return {all, total, sums ? block_sum(sum, warps) : 0};
}

// Joins all parts of a row, and finds its target's logit.
template <class T>
__device__ Softmax merged(const Call<T>& c, i64 row, float& logit) {
  Softmax s{kLowest, 0, 0};
  for (i64 i = 0; i < c.parts; ++i) s.top = fmaxf(s.top, c.sums[4 * (i * c.rows + row)]);
  logit = 0;
  for (i64 i = 0; i < c.parts; ++i) {
    const float* p = c.sums + 4 * (i * c.rows + row);
    s.total += p[1] * power(p[0], s.top);
    logit += p[2];
    s.sum += p[3];
  }
  return s;
}

template <class T>
__global__ void __launch_bounds__(1024) cross_entropy_row(Call<T> c) {
  const i64 row = blockIdx.x, target = c.targets[row] - c.first;
  T* p = c.logits.at(row);
  if (c.targets[row] < 0 || c.targets[row] >= c.classes) {
    if (threadIdx.x == 0) *c.wrong = static_cast<std::int32_t>(Wrong::target);
    return;
  }
  float logit = c.sums ? 0 : to_float(p[target]);
  const float e = c.smoothing, n = static_cast<float>(c.classes);
  // All have read the target's logit before anyone passes the barriers of the sweep.
  const Softmax s = c.sums ? merged(c, row, logit) : sweep(p, c.cols, c.wide, e != 0);
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

template <class T>
struct SumsCall {
  Rows<float> y;
  Rows<const T> logits;
  i64 cols, first;
  const std::int32_t* targets;
  bool wide;
};

template <class T>
__global__ void __launch_bounds__(1024) logit_sums_row(SumsCall<T> c) {
  const i64 row = blockIdx.x, target = c.targets[row] - c.first;
  const T* p = c.logits.at(row);
  const Softmax s = sweep(p, c.cols, c.wide, true);
  if (threadIdx.x != 0) return;
  float* y = c.y.at(row);
  y[0] = s.top;
  y[1] = s.total;
  y[2] = 0 <= target && target < c.cols ? to_float(p[target]) : 0;
  y[3] = s.sum;
}

}  // namespace

void compute(const op::LogitSums& op, const Queue& queue) {
  const View logits = view_of(op.logits);
  if (logits.rows == 0) return;
  with_float(logits.type, [&](auto t) {
    using T = decltype(t);
    launch("logit_sums", a_block_for_each_row(queue, logits.rows, logits.cols, 1024), logit_sums_row<T>,
           SumsCall<T>{Rows<float>(view_of(op.y)), Rows<const T>(logits), logits.cols, op.first,
                       data_of<const std::int32_t>(op.targets), wide(logits)});
  });
}

void compute(const op::CrossEntropy& op, const Queue& queue) {
  const View logits = view_of(op.logits), sums = view_of(op.sums);
  if (logits.rows == 0) return;
  with_float(logits.type, [&](auto t) {
    using T = decltype(t);
    launch("cross_entropy", a_block_for_each_row(queue, logits.rows, logits.cols, 1024), cross_entropy_row<T>,
           Call<T>{data_of<float>(op.loss), Rows<T>(logits), logits.cols,
                   data_of<const std::int32_t>(op.targets), data_of<const float>(op.weights), op.scale,
                   op.smoothing, op.cap, op.gradient, wide(logits), data_of<const float>(op.sums),
                   sums.rows / logits.rows, logits.rows, op.first, sums.data ? op.classes : logits.cols,
                   queue.wrong});
  });
}

}  // namespace ft::cuda
