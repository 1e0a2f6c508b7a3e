// The leaf kernels of one target, spread over several files; leaf.cpp puts them into the table.
#pragma once
#include "engine/cpu/kernels/leaf.h"

namespace ft::cpu::FT_TARGET {

void fill(const View& y, float value, int threads);
void add(const View& y, const View& x, int threads);
void cast(const View& y, const View& x, int threads);
void dropout(const View& y, const View& x, float p, std::uint64_t key, int threads);
void gated(Activation f, const View& y, const View& gate, const View& up, int threads);
void gated_grad(Activation f, const View& dgate, const View& dup, const View& dy, const View& gate,
                const View& up, int threads);
void column_sums(float* y, const View& x, int threads);
void rms_norm(const View& y, float* rstd, const View& x, const void* w, float eps, int threads);
void rms_norm_grad(const View& dx, float* dw, const View& dy, const View& x, const void* w, const float* rstd,
                   int threads);
void rope(const RopeCall& call, int threads);
void embedding_grad(const View& dtable, const std::int32_t* ids, const View& dy, int threads);
void cross_entropy(const LossCall& call, int threads);
double sum(const float* x, std::int64_t n, int threads);
double sum_squares(const float* x, std::int64_t n, int threads);
void adamw(float* master, float* m, float* v, const float* grad, std::int64_t n, const math::AdamWStep& how,
           int threads);
void sgd(float* master, const float* grad, std::int64_t n, float lr, float decay, float grad_scale,
         int threads);

}  // namespace ft::cpu::FT_TARGET
