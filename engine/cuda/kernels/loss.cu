// Cross-entropy of rows of logits, and their gradient in place: one block for each row. A pass over the row
// keeps a running maximum and the sum of powers relative to it (Milakov and Gimelshein 2018). The block keeps
// the row in registers for the gradient; it reads a long row twice. If the logits are only some columns of a
// row, the pass computes LogitSums, and the gradient follows once the sums of all columns are known.
#include "engine/cuda/kernels/kept_row.cuh"
#include "engine/cuda/kernels/kernels.h"
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
  bool dynamic, gradient;
  const float* sums;  // (parts, rows, 4); null: the logits are all the columns
  i64 parts, rows, first, classes;
  std::int32_t* wrong;
};

constexpr int kKeptBytes = 128;  // bytes per thread: with 512 threads 32768 logits of 16 bits

// The subtrahend in powers. It is finite even if all logits are minus infinity, so that their powers are 0.
__device__ inline float base_of(float top) { return top == kLowest ? 0 : top; }
__device__ inline float power(float x, float base) { return power_of_2((x - base) * kLog2e); }

struct Softmax {
  float top, total, sum;  // sum of exp(x - top); sum of x
};

// Leaves the end of the row in `kept`: the complete row if it fits.
template <class T, class Row>
__device__ Softmax sweep(Row& kept, const T* row, i64 cols, bool sums) {
  float top = kLowest, total = 0, sum = 0;
  for (i64 first = 0; first < cols; first += Row::stretch()) {
    kept.load(row, first, cols);
#pragma unroll
    for (int p = 0; p < Row::kPacks; ++p) {
      const int count = Row::count(first, p, cols);
      if (count == 0) break;
      float v[kPack];
      kept.widen(v, p);
      float larger = top;
      for (int j = 0; j < kPack; ++j)
        if (j < count) larger = fmaxf(larger, v[j]);  // ignores a NaN, which the sums do not
      const float base = base_of(larger);
      total *= power(top, base);
      for (int j = 0; j < kPack; ++j)
        if (j < count) total += power(v[j], base);
      if (sums)
        for (const float e : v) sum += e;
      top = larger;
    }
  }
  float* warps = shared_memory<RowShared>().warps;
  const float all = block_largest(top, warps);
  total = block_sum(total * power(top, base_of(all)), warps);
  return {all, total, sums ? block_sum(sum, warps) : 0};
}

// Merges all parts of a row, and finds its target's logit.
template <class T>
__device__ Softmax merged(const Call<T>& c, i64 row, float& logit) {
  Softmax s{kLowest, 0, 0};
  for (i64 i = 0; i < c.parts; ++i) s.top = fmaxf(s.top, c.sums[4 * (i * c.rows + row)]);
  logit = 0;
  for (i64 i = 0; i < c.parts; ++i) {
    const float* p = c.sums + 4 * (i * c.rows + row);
    s.total += p[1] * power(p[0], base_of(s.top));
    logit += p[2];
    s.sum += p[3];
  }
  return s;
}

// Turns a pack of logits into gradients: scale (softmax - (1 - e) onehot - e / V), times the derivative of a
// cap.
template <class T, bool kCapped>
struct Slopes {
  float base, factor, even, hit, cap;
  i64 target;
  __device__ Slopes(const Call<T>& c, i64 row, const Softmax& s, i64 of, float weight)
      : cap(c.cap), target(of) {
    const float scale = (c.weights ? c.scale * c.weights[row] : c.scale) * weight;
    base = base_of(s.top);
    factor = scale / s.total;
    even = scale * c.smoothing / static_cast<float>(c.classes);
    hit = scale * (1 - c.smoothing);
  }
  __device__ void operator()(float (&v)[kPack], i64 at) const {
    const int hit_at = 0 <= target - at && target - at < kPack ? static_cast<int>(target - at) : kPack;
    for (int j = 0; j < kPack; ++j) {
      float d = power(v[j], base) * factor - even;
      if (j == hit_at) d -= hit;
      v[j] = kCapped ? d * math::soft_cap_slope(v[j] / cap) : d;
    }
  }
};

template <class T, bool kWide, bool kCapped>
__global__ void __launch_bounds__(kRowThreads, 2) cross_entropy_row(Call<T> c) {
  using Row = Kept<T, kWide, kKeptBytes>;
  const i64 row = blockIdx.x, target = c.targets[row] - c.first;
  T* p = c.logits.at(row);
  if (c.targets[row] < 0 || c.targets[row] >= c.classes) {
    if (threadIdx.x == 0) *c.wrong = static_cast<std::int32_t>(Wrong::target);
    return;
  }
  float logit = c.sums ? 0 : to_float(p[target]);
  const float e = c.smoothing, n = static_cast<float>(c.classes);
  Row kept;
  // Every thread reads the target's logit before it passes the barriers of the pass.
  const Softmax s = c.sums ? merged(c, row, logit) : sweep(kept, p, c.cols, e != 0);
  double lse = 0, weight = 1;
  if (threadIdx.x == 0 || c.dynamic) lse = static_cast<double>(s.top) + log(static_cast<double>(s.total));
  if (c.dynamic) weight = math::dynamic_weight(lse, logit);
  if (threadIdx.x == 0)
    c.loss[row] = static_cast<float>(weight * math::smoothed_loss<double>(lse, logit, s.sum / n, e));
  if (!c.gradient) return;
  const Slopes<T, kCapped> slopes(c, row, s, target, static_cast<float>(weight));
  const bool there = !c.sums && Row::stretch() >= c.cols;
  for (i64 first = 0; first < c.cols; first += Row::stretch()) {
    if (!there) kept.load(p, first, c.cols);
#pragma unroll
    for (int k = 0; k < Row::kPacks; ++k) {
      const i64 at = Row::column(first, k);
      if (at >= c.cols) break;
      float v[kPack];
      kept.widen(v, k);
      slopes(v, at);
      store(p + at, v, Row::pack_at(at, c.cols));
    }
  }
}

template <class T>
struct SumsCall {
  Rows<float> y;
  Rows<const T> logits;
  i64 cols, first;
  const std::int32_t* targets;
};

template <class T, bool kWide>
__global__ void __launch_bounds__(kRowThreads, 2) logit_sums_row(SumsCall<T> c) {
  const i64 row = blockIdx.x, target = c.targets[row] - c.first;
  const T* p = c.logits.at(row);
  Kept<T, kWide, kKeptBytes> kept;
  const Softmax s = sweep(kept, p, c.cols, true);
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
    keep_each_row<T, kKeptBytes>("logit_sums", queue, logits, wide(logits), logit_sums_row<T, true>,
                                 logit_sums_row<T, false>,
                                 SumsCall<T>{Rows<float>(view_of(op.y)), Rows<const T>(logits), logits.cols,
                                             op.first, data_of<const std::int32_t>(op.targets)});
  });
}

void compute(const op::CrossEntropy& op, const Queue& queue) {
  const View logits = view_of(op.logits), sums = view_of(op.sums);
  if (logits.rows == 0) return;
  with_float(logits.type, [&](auto t) {
    using T = decltype(t);
    const Call<T> call{data_of<float>(op.loss),
                       Rows<T>(logits),
                       logits.cols,
                       data_of<const std::int32_t>(op.targets),
                       data_of<const float>(op.weights),
                       op.scale,
                       op.smoothing,
                       op.cap,
                       op.dynamic,
                       op.gradient,
                       data_of<const float>(op.sums),
                       sums.rows / logits.rows,
                       logits.rows,
                       op.first,
                       sums.data ? op.classes : logits.cols,
                       queue.wrong};
    const auto run = [&](auto wide_kernel, auto narrow_kernel) {
      keep_each_row<T, kKeptBytes>("cross_entropy", queue, logits, wide(logits), wide_kernel, narrow_kernel,
                                   call);
    };
    if (op.cap > 0)
      run(cross_entropy_row<T, true, true>, cross_entropy_row<T, false, true>);
    else
      run(cross_entropy_row<T, true, false>, cross_entropy_row<T, false, false>);
  });
}

}  // namespace ft::cuda
