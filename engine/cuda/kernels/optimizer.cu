// Sums of f32 in f64, and the optimizers' updates, on dense f32.
#include <algorithm>

#include "engine/cuda/kernels/dynamic_codes.cuh"
#include "engine/cuda/kernels/kernels.h"
#include "engine/cuda/kernels/step_each.cuh"

namespace ft::cuda {
namespace {

constexpr int kThreads = 256;

struct Shared {
  double warps[32];
};

template <bool squares>
__global__ void __launch_bounds__(kThreads) sum_part(double* partial, const float* x, i64 n, bool wide) {
  double sum = 0;
  const i64 step = static_cast<i64>(gridDim.x) * kThreads * kPack;
  for (i64 i = (static_cast<i64>(blockIdx.x) * kThreads + threadIdx.x) * kPack; i < n; i += step) {
    float v[kPack];
    load(v, x + i, pack_at(i, n, wide));
    for (const float e : v) sum += squares ? static_cast<double>(e) * e : static_cast<double>(e);
  }
  sum = block_sum(sum, shared_memory<Shared>().warps);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

__global__ void __launch_bounds__(kThreads) add_parts(double* y, const double* partial, int parts) {
  double sum = 0;
  for (int i = static_cast<int>(threadIdx.x); i < parts; i += kThreads) sum += partial[i];
  sum = block_sum(sum, shared_memory<Shared>().warps);
  if (threadIdx.x == 0) *y += sum;
}

template <bool squares>
void add_up(const Tensor& y, const Tensor& x, const Queue& q) {
  const i64 n = x.numel();
  if (n == 0) return;
  const unsigned parts = at_most(ceil_div(n, kThreads * kPack), kSumParts);
  launch("sum", {q.stream, dim3(parts), kThreads, sizeof(Shared)}, sum_part<squares>, q.partial,
         data_of<const float>(x), n, wide(row_of(x)));
  launch("sum", {q.stream, dim3(1), kThreads, sizeof(Shared)}, add_parts, data_of<double>(y), q.partial,
         static_cast<int>(parts));
}

// N states in 8 bits.
template <int N>
struct Coded {
  std::uint8_t* codes[N];
  float* largest[N];
  float maps[N][256];
};

template <int N>
struct CodedShared {
  DynamicCodes states[N];
};

// Loads eight codes; a complete pack in one access.
__device__ inline void load_codes(int (&codes)[kPack], const std::uint8_t* p, Pack pack) {
  if (pack.wide && pack.count == kPack) {
    const auto* words = reinterpret_cast<const uint2*>(p);
    const unsigned two[] = {words->x, words->y};
    for (int j = 0; j < kPack; ++j) codes[j] = static_cast<int>(two[j / 4] >> j % 4 * 8 & 255);
  } else {
    for (int j = 0; j < kPack; ++j) codes[j] = j < pack.count ? p[j] : 0;
  }
}
__device__ inline void store_codes(std::uint8_t* p, const int (&codes)[kPack], Pack pack) {
  if (pack.wide && pack.count == kPack) {
    unsigned two[2] = {};
    for (int j = 0; j < kPack; ++j) two[j / 4] |= static_cast<unsigned>(codes[j]) << j % 4 * 8;
    *reinterpret_cast<uint2*>(p) = {two[0], two[1]};
  } else {
    for (int j = 0; j < kPack; ++j)
      if (j < pack.count) p[j] = static_cast<std::uint8_t>(codes[j]);
  }
}

// A step with states in 8 bits: a warp has a coded block, a lane a pack of it.
template <int N, class F>
__global__ void __launch_bounds__(kThreads)
    step_block(float* master, RoundedTo value, Coded<N> states, const float* grad, i64 n, bool wide, F f) {
  static_assert(op::kCodedBlock == 32 * kPack);
  auto& shared = shared_memory<CodedShared<N>>();
  for (int k = 0; k < N; ++k) shared.states[k].make(states.maps[k]);
  const i64 lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = kThreads / 32;
  for (i64 block = blockIdx.x * warps + warp; block * op::kCodedBlock < n; block += gridDim.x * warps) {
    const i64 i = block * op::kCodedBlock + lane * kPack;
    const Pack pack{static_cast<int>(i < n ? n - i < kPack ? n - i : kPack : 0), wide};
    float x[N + 1][kPack], g[kPack];
    load(x[0], master + i, pack);
    load(g, grad + i, pack);
    for (int k = 0; k < N; ++k) {
      int codes[kPack];
      load_codes(codes, states.codes[k] + i, pack);
      const float largest = states.largest[k][block];
      for (int j = 0; j < kPack; ++j) x[k + 1][j] = shared.states[k].map[codes[j]] * largest;
    }
    for (int j = 0; j < kPack; ++j) {
      float all[N + 1];
      for (int k = 0; k <= N; ++k) all[k] = x[k][j];
      f(all, g[j]);
      for (int k = 0; k <= N; ++k) x[k][j] = j < pack.count ? all[k] : 0;
    }
    store(master + i, x[0], pack);
    value.put(i, x[0], pack);
    for (int k = 0; k < N; ++k) {
      float largest = fabsf(x[k + 1][0]);
      for (const float e : x[k + 1]) largest = fmaxf(largest, fabsf(e));
      largest = warp_largest(largest);
      const Divisor by(largest);
      int codes[kPack];
      for (int j = 0; j < kPack; ++j) codes[j] = shared.states[k].code_of(by.under(x[k + 1][j]));
      store_codes(states.codes[k] + i, codes, pack);
      if (lane == 0) states.largest[k][block] = largest;
    }
  }
}

// Codes and magnitudes of a state; has_signs: the map has negative values.
struct CodedState {
  const Tensor &codes, &largest;
  bool has_signs;
};

template <int N, class F>
void step_each_block(const char* what, const Tensor& master, const Tensor& value, const CodedState (&all)[N],
                     const Tensor& grad, const Queue& queue, const F& f) {
  const i64 n = grad.numel();
  if (n == 0) return;
  Coded<N> states;
  bool every = wide({row_of(master), row_of(value), row_of(grad)});
  for (int k = 0; k < N; ++k) {
    states.codes[k] = data_of<std::uint8_t>(all[k].codes);
    states.largest[k] = data_of<float>(all[k].largest);
    const DynamicMap& map = dynamic_map(all[k].has_signs);
    std::copy(map.begin(), map.end(), states.maps[k]);
    every = every && reinterpret_cast<std::uintptr_t>(states.codes[k]) % 8 == 0;
  }
  constexpr i64 kBlocks = 528;  // four for each multiprocessor of an H100, so that few tables are made
  launch(
      what,
      {queue.stream, dim3(at_most(ceil_div(n, kThreads * kPack), kBlocks)), kThreads, sizeof(CodedShared<N>)},
      step_block<N, F>, data_of<float>(master), rounded_to(value), states, data_of<const float>(grad), n,
      every, f);
}

struct Moment {
  float* y;
  const float *m, *grad;
  steps::FirstMoment how;
  bool adds;
  __device__ void operator()(i64, i64 i, Pack pack) const {
    float to[kPack], from[kPack], g[kPack];
    load(from, m + i, pack);
    load(g, grad + i, pack);
    load(to, y + i, pack);
    for (int j = 0; j < kPack; ++j) to[j] = adds ? to[j] + how(from[j], g[j]) : how(from[j], g[j]);
    store(y + i, to, pack);
  }
};

struct PlainStep {
  float *master, *v;
  const float *m, *grad;  // grad may be null
  steps::PlainAdam how;
  __device__ void operator()(i64, i64 i, Pack pack) const {
    float p[kPack], second[kPack], first[kPack], g[kPack];
    load(p, master + i, pack);
    load(second, v + i, pack);
    load(first, m + i, pack);
    if (grad) {
      load(g, grad + i, pack);
      for (int j = 0; j < kPack; ++j) second[j] = how.second_moment(second[j], g[j]);
      store(v + i, second, pack);
    }
    for (int j = 0; j < kPack; ++j) p[j] = how.step(p[j], first[j], second[j]);
    store(master + i, p, pack);
  }
};

}  // namespace

void compute(const op::Sum& op, const Queue& queue) { add_up<false>(op.y, op.x, queue); }
void compute(const op::SumSquares& op, const Queue& queue) { add_up<true>(op.y, op.x, queue); }

void compute(const op::AdamW& op, const Queue& queue) {
  if (op.m_largest)
    step_each_block("adamw in 8 bits", op.master, op.value,
                    {{op.m, op.m_largest, true}, {op.v, op.v_largest, false}}, op.grad, queue, op.scalars());
  else
    step_each("adamw", {op.master, op.m, op.v}, op.value, op.grad, queue, op.scalars());
}

void compute(const op::Lion& op, const Queue& queue) {
  if (op.m_largest)
    step_each_block("lion in 8 bits", op.master, op.value, {{op.m, op.m_largest, true}}, op.grad, queue,
                    op.scalars());
  else
    step_each("lion", {op.master, op.m}, op.value, op.grad, queue, op.scalars());
}

void compute(const op::AdEMAMix& op, const Queue& queue) {
  if (op.m_largest)
    step_each_block(
        "ademamix in 8 bits", op.master, op.value,
        {{op.m, op.m_largest, true}, {op.slow, op.slow_largest, true}, {op.v, op.v_largest, false}}, op.grad,
        queue, op.scalars());
  else
    step_each("ademamix", {op.master, op.m, op.slow, op.v}, op.value, op.grad, queue, op.scalars());
}

void compute(const op::Sgd& op, const Queue& queue) {
  if (op.buffer)
    step_each("sgd", {op.master, op.buffer}, op.value, op.grad, queue, op.with_momentum());
  else
    step_each("sgd", {op.master}, op.value, op.grad, queue, op.scalars());
}

void compute(const op::Adagrad& op, const Queue& queue) {
  step_each("adagrad", {op.master, op.sum}, op.value, op.grad, queue, op.scalars());
}

void compute(const op::RmsProp& op, const Queue& queue) {
  const steps::RmsPropScalars how = op.scalars();
  const char* const what = "rmsprop";
  if (op.mean && op.buffer)
    step_each(what, {op.master, op.square, op.mean, op.buffer}, op.value, op.grad, queue,
              steps::RmsProp<true, true>{how});
  else if (op.mean)
    step_each(what, {op.master, op.square, op.mean}, op.value, op.grad, queue,
              steps::RmsProp<true, false>{how});
  else if (op.buffer)
    step_each(what, {op.master, op.square, op.buffer}, op.value, op.grad, queue,
              steps::RmsProp<false, true>{how});
  else
    step_each(what, {op.master, op.square}, op.value, op.grad, queue, steps::RmsProp<false, false>{how});
}

void compute(const op::FirstMoment& op, const Queue& queue) {
  run_each_pack("first_moment", queue.stream, {row_of(op.y), row_of(op.m), row_of(op.grad)},
                Moment{data_of<float>(op.y), data_of<const float>(op.m), data_of<const float>(op.grad),
                       op.scalars(), op.adds});
}

void compute(const op::PlainAdam& op, const Queue& queue) {
  run_each_pack("plain_adam", queue.stream,
                {row_of(op.master), row_of(op.v), row_of(op.m), row_of(op.grad ? op.grad : op.m)},
                PlainStep{data_of<float>(op.master), data_of<float>(op.v), data_of<const float>(op.m),
                          data_of<const float>(op.grad), op.scalars()});
}

void compute(const op::Average& op, const Queue& queue) {
  step_each("average", {op.mean}, {}, op.x, queue, op.scalars());
}

}  // namespace ft::cuda
