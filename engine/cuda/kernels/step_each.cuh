// Elementwise steps of optimizers, on dense f32.
#pragma once
#include "engine/cuda/kernels/each_pack.cuh"
#include "engine/ops/steps.h"

namespace ft::cuda {

// View of all elements of a dense tensor as one row.
inline View row_of(const Tensor& t) { return {t.data, t.dtype, 1, t.numel(), t.numel()}; }

// The place of a master's rounded values; nowhere: data is null.
struct RoundedTo {
  void* data;
  DType type;
  __device__ void put(i64 i, const float (&master)[kPack], Pack pack) const {
    if (!data) return;
    if (type == DType::bf16)
      store(static_cast<bf16*>(data) + i, master, pack);
    else
      store(static_cast<f16*>(data) + i, master, pack);
  }
};
inline RoundedTo rounded_to(const Tensor& value) { return {value.data, value.dtype}; }

// Steps a pack of the elements that change, with the gradient's pack. The first of them is the master.
template <int N, class F>
struct StepEach {
  float* at[N];
  RoundedTo value;
  const float* grad;
  F f;
  __device__ void operator()(i64, i64 i, Pack pack) const {
    float all[N][kPack], g[kPack];
    for (int k = 0; k < N; ++k) load(all[k], at[k] + i, pack);
    load(g, grad + i, pack);
    for (int j = 0; j < kPack; ++j) {
      float x[N];
      for (int k = 0; k < N; ++k) x[k] = all[k][j];
      f(x, g[j]);
      for (int k = 0; k < N; ++k) all[k][j] = x[k];
    }
    for (int k = 0; k < N; ++k) store(at[k] + i, all[k], pack);
    value.put(i, all[0], pack);
  }
};

template <int N, class F>
void step_each(const char* what, const Tensor (&all)[N], const Tensor& value, const Tensor& grad,
               const Queue& queue, const F& f) {
  const View g = row_of(grad);
  bool every = wide({g, row_of(value)});
  StepEach<N, F> step{{}, rounded_to(value), data_of<const float>(grad), f};
  for (int k = 0; k < N; ++k) {
    step.at[k] = data_of<float>(all[k]);
    every = every && wide(row_of(all[k]));
  }
  run_each_pack(what, queue.stream, g.rows, g.cols, every, step);
}

}  // namespace ft::cuda
