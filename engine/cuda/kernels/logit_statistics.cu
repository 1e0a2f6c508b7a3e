// Statistics of rows of logits: one block for each row, with two passes over it. The first finds the largest
// logit, the second sums relative to it.
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
  Rows<float> y;
  Rows<const T> logits;
  i64 cols;
  const std::int32_t* targets;
  bool wide;
  std::int32_t* wrong;
};

struct Sums {
  float power = 0, square = 0, weighted = 0, plain = 0;  // sums of e^x, e^2x, x e^x, x
  float before = 0;  // number of logits equal to the largest before the target
};

template <class T>
__device__ float largest_of(const T* p, const Call<T>& c, float* warps) {
  float top = kLowest;
  for (i64 i = threadIdx.x * kPack; i < c.cols; i += blockDim.x * kPack) {
    float v[kPack];
    const Pack pack = pack_at(i, c.cols, c.wide);
    load(v, p + i, pack);
    for (int j = 0; j < pack.count; ++j) top = fmaxf(top, v[j]);
  }
  return block_largest(top, warps);
}

template <class T>
__device__ Sums sums_of(const T* p, const Call<T>& c, float top, i64 target) {
  Sums s;
  for (i64 i = threadIdx.x * kPack; i < c.cols; i += blockDim.x * kPack) {
    float v[kPack];
    const Pack pack = pack_at(i, c.cols, c.wide);
    load(v, p + i, pack);
    for (int j = 0; j < pack.count; ++j) {
      const float x = v[j] - top, e = power_of_2(x * kLog2e);
      s.power += e;
      s.square += power_of_2(2 * x * kLog2e);
      s.weighted += e * fmaxf(x, -1e30f);  // 0 for e = 0
      s.plain += x;
      if (x == 0 && i + j < target) s.before += 1;
    }
  }
  return s;
}

template <class T>
__global__ void __launch_bounds__(1024) logit_statistics_row(Call<T> c) {
  const i64 row = blockIdx.x, target = c.targets[row];
  const T* p = c.logits.at(row);
  if (target < 0 || target >= c.cols) {
    if (threadIdx.x == 0) *c.wrong = static_cast<std::int32_t>(Wrong::target);
    return;
  }
  float* warps = shared_memory<RowShared>().warps;
  const float top = largest_of(p, c, warps);
  const Sums own = sums_of(p, c, top, target);
  const float total = block_sum(own.power, warps), squares = block_sum(own.square, warps),
              weighted = block_sum(own.weighted, warps), plain = block_sum(own.plain, warps),
              before = block_sum(own.before, warps);
  if (threadIdx.x != 0) return;
  const double log_total = log(static_cast<double>(total));
  float* y = c.y.at(row);
  y[0] = static_cast<float>(log_total - static_cast<double>(weighted) / static_cast<double>(total));
  y[1] = top + plain / static_cast<float>(c.cols);
  y[2] = to_float(p[target]) == top && before == 0 ? 1 : 0;
  y[3] = static_cast<float>(log(static_cast<double>(squares)) - 2 * log_total);
}

}  // namespace

void compute(const op::LogitStatistics& op, const Queue& queue) {
  const View logits = view_of(op.logits);
  if (logits.rows == 0) return;
  with_float(logits.type, [&](auto t) {
    using T = decltype(t);
    launch("logit_statistics", a_block_for_each_row(queue, logits.rows, logits.cols, 1024),
           logit_statistics_row<T>,
           Call<T>{Rows<float>(view_of(op.y)), Rows<const T>(logits), logits.cols,
                   data_of<const std::int32_t>(op.targets), wide(logits), queue.wrong});
  });
}

}  // namespace ft::cuda
