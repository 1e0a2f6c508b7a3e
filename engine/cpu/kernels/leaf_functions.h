// The leaf kernels of one target, spread over several files; leaf.cpp puts them into the table.
#pragma once
#include "engine/cpu/kernels/leaf.h"

namespace ft::cpu::FT_TARGET {

void fill(const View& y, float value, Team& team);
void add(const View& y, const View& x, Team& team);
void cast(const View& y, const View& x, Team& team);
void dropout(const View& y, const View& x, float p, std::uint64_t key, Team& team);
void gated(Activation f, const View& y, const View& gate, const View& up, Team& team);
void gated_grad(Activation f, const View& dgate, const View& dup, const View& dy, const View& gate,
                const View& up, Team& team);
void column_sums(float* y, const View& x, Team& team);
void rms_norm(const View& y, float* rstd, const View& x, const void* w, float eps, Team& team);
void rms_norm_grad(const View& dx, float* dw, const View& dy, const View& x, const void* w, const float* rstd,
                   Team& team);
void rope(const RopeCall& call, Team& team);
void embedding_grad(const View& dtable, const std::int32_t* ids, const View& dy, Team& team);
void cross_entropy(const LossCall& call, Team& team);
double sum(const float* x, std::int64_t n, Team& team);
double sum_squares(const float* x, std::int64_t n, Team& team);
void adamw(float* master, float* m, float* v, const float* grad, std::int64_t n, const math::AdamWStep& how,
           Team& team);
void sgd(float* master, const float* grad, std::int64_t n, float lr, float decay, float grad_scale,
         Team& team);

}  // namespace ft::cpu::FT_TARGET
