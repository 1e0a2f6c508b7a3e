// The divergence of a student's rows of logits from a teacher's: one block for each row, with passes over
// both.
#include "engine/cuda/kernels/device.cuh"
#include "engine/cuda/kernels/kernels.h"
#include "engine/cuda/kernels/row_blocks.cuh"
#include "engine/ops/math.h"

namespace ft::cuda {
namespace {

constexpr float kLog2e = static_cast<float>(math::kLog2e);
constexpr float kLowest = -__builtin_huge_valf();
constexpr float kLeast = 1e-37f;  // smallest probability of a mixture, so that its logarithm stays finite

template <class T>
struct Call {
  float* loss;
  Rows<T> logits;
  Rows<const T> teacher;
  i64 cols;
  const std::int32_t* targets;
  float beta, inverse, divergence, cross_entropy, scale, cap;
  bool gradient, wide;
  std::int32_t* wrong;
};

// softmax(row / T) of a row.
struct Softmax {
  float inverse, top, total, log_total;
  __device__ float exponent(float x) const { return fmaxf((x - top) * inverse, -1e30f); }
  __device__ float probability(float x) const { return power_of_2(exponent(x) * kLog2e) / total; }
  __device__ float log_p(float x) const { return exponent(x) - log_total; }
};

// Calls f(x, teacher's, column) for this thread's elements of the row.
template <class T, class F>
__device__ void each_element(const T* p, const T* q, const Call<T>& c, F f) {
  for (i64 i = threadIdx.x * kPack; i < c.cols; i += blockDim.x * kPack) {
    float x[kPack], t[kPack];
    const Pack pack = pack_at(i, c.cols, c.wide);
    load(x, p + i, pack);
    load(t, q + i, pack);
    for (int j = 0; j < pack.count; ++j) f(x[j], t[j], i + j);
  }
}

struct Both {
  Softmax student, teacher, plain;  // plain: the student's without temperature
};

template <class T>
__device__ Both softmax_of(const T* p, const T* q, const Call<T>& c) {
  float* warps = shared_memory<RowShared>().warps;
  float top = kLowest, other = kLowest;
  each_element(p, q, c, [&](float x, float t, i64) {
    top = fmaxf(top, x);
    other = fmaxf(other, t);
  });
  Both b{{c.inverse, block_largest(top, warps), 0, 0}, {c.inverse, block_largest(other, warps), 0, 0}, {}};
  b.plain = {1, b.student.top, 0, 0};
  each_element(p, q, c, [&](float x, float t, i64) {
    b.student.total += power_of_2(b.student.exponent(x) * kLog2e);
    b.teacher.total += power_of_2(b.teacher.exponent(t) * kLog2e);
    b.plain.total += power_of_2(b.plain.exponent(x) * kLog2e);
  });
  const auto finish = [&](Softmax& s) {
    s.total = block_sum(s.total, warps);
    s.log_total = static_cast<float>(log(static_cast<double>(s.total)));
  };
  finish(b.student);
  finish(b.teacher);
  finish(b.plain);
  return b;
}

// Logarithm of the mixture that p and q are compared with, if beta is not 0 or 1.
__device__ inline float log_mixture(const Both& b, float beta, float x, float t) {
  const float m = (1 - beta) * b.student.probability(x) + beta * b.teacher.probability(t);
  return logf(fmaxf(m, kLeast));
}

template <class T>
__global__ void __launch_bounds__(1024) divergence_row(Call<T> c) {
  const i64 row = blockIdx.x, target = c.targets[row];
  T* p = c.logits.at(row);
  const T* q = c.teacher.at(row);
  if (target < 0 || target >= c.cols) {
    if (threadIdx.x == 0) *c.wrong = static_cast<std::int32_t>(Wrong::target);
    return;
  }
  const float logit = to_float(p[target]), beta = c.beta;
  const Both b =
      softmax_of<T>(p, q, c);  // every thread reads the target's logit before it passes the barriers here
  const auto other_of_student = [&](float x, float t) {
    return beta == 1 ? b.teacher.log_p(t) : log_mixture(b, beta, x, t);
  };
  float student = 0, teacher = 0;  // KL(p || ...), KL(q || ...)
  each_element<T>(p, q, c, [&](float x, float t, i64) {
    if (beta > 0) student += b.student.probability(x) * (b.student.log_p(x) - other_of_student(x, t));
    if (beta < 1) {
      const float other = beta == 0 ? b.student.log_p(x) : log_mixture(b, beta, x, t);
      teacher += b.teacher.probability(t) * (b.teacher.log_p(t) - other);
    }
  });
  float* warps = shared_memory<RowShared>().warps;
  student = block_sum(student, warps);
  teacher = block_sum(teacher, warps);
  if (threadIdx.x == 0) {
    const bool mixed = 0 < beta && beta < 1;
    const float both = mixed ? beta * teacher + (1 - beta) * student : teacher + student;
    const float ce = c.cross_entropy == 0 ? 0 : b.plain.log_total + b.plain.top - logit;
    c.loss[row] = c.divergence * both + c.cross_entropy * ce;
  }
  if (!c.gradient) return;
  const float weight = c.scale * c.divergence * c.inverse, example = c.scale * c.cross_entropy;
  for (i64 i = threadIdx.x * kPack; i < c.cols; i += blockDim.x * kPack) {
    float x[kPack], t[kPack];
    const Pack pack = pack_at(i, c.cols, c.wide);
    load(x, p + i, pack);
    load(t, q + i, pack);
    for (int j = 0; j < pack.count; ++j) {
      const float share = b.student.probability(x[j]);
      float slope = share - b.teacher.probability(t[j]);
      if (beta > 0)
        slope = (beta == 1 ? 1 : 1 - beta) * share *
                (b.student.log_p(x[j]) - other_of_student(x[j], t[j]) - student);
      float g = weight * slope;
      if (example != 0) g += example * (b.plain.probability(x[j]) - (i + j == target ? 1.0f : 0.0f));
      if (c.cap > 0) g *= 1 - (x[j] / c.cap) * (x[j] / c.cap);
      x[j] = g;
    }
    store(p + i, x, pack);
  }
}

}  // namespace

void compute(const op::Divergence& op, const Queue& queue) {
  const View logits = view_of(op.logits), teacher = view_of(op.teacher);
  if (logits.rows == 0) return;
  with_float(logits.type, [&](auto type) {
    using T = decltype(type);
    launch(
        "divergence", a_block_for_each_row(queue, logits.rows, logits.cols, 1024), divergence_row<T>,
        Call<T>{data_of<float>(op.loss), Rows<T>(logits), Rows<const T>(teacher), logits.cols,
                data_of<const std::int32_t>(op.targets), op.beta, 1 / op.temperature, op.divergence,
                op.cross_entropy, op.scale, op.cap, op.gradient, wide(logits) && wide(teacher), queue.wrong});
  });
}

}  // namespace ft::cuda
