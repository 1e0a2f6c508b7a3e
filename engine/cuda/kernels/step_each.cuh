// Elementwise steps of optimizers, on dense f32.
#pragma once
#include "engine/cuda/kernels/each_pack.cuh"
#include "engine/ops/steps.h"

namespace ft::cuda {

// View of all elements of a dense tensor as one row.
inline View row_of(const Tensor& t) { return {t.data, t.dtype, 1, t.numel(), t.numel()}; }

// Steps a pack of the elements that change, with the gradient's pack.
template <int N, class F>
struct StepEach {
  float* at[N];
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
  }
};

template <int N, class F>
void step_each(const char* what, const Tensor (&all)[N], const Tensor& grad, const Queue& queue, const F& f) {
  const View g = row_of(grad);
  bool every = wide(g);
  StepEach<N, F> step{{}, data_of<const float>(grad), f};
  for (int k = 0; k < N; ++k) {
    step.at[k] = data_of<float>(all[k]);
    every = every && wide(row_of(all[k]));
  }
  run_each_pack(what, queue.stream, g.rows, g.cols, every, step);
}

}  // namespace ft::cuda
