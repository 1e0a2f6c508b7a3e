// Sums of f32 in f64, and the optimizers' updates: dense f32.
#include "engine/cpu/kernels/leaf_functions.h"
#include "engine/cpu/kernels/loops.h"
#include "engine/ops/steps.h"

namespace ft::cpu::FT_TARGET {
namespace {

i64 elements_of(const Tensor& dense) {
  const View v = view_of(dense);
  return v.rows * v.cols;
}

// The sum of f(x[i]) in f64: at most 256 parts, whose number and bounds depend on n only, added in order.
template <class F>
double sum_in_order(const Tensor& t, Team& team, F f) {
  const i64 n = elements_of(t);
  const auto* x = data_of<const float>(t);
  constexpr i64 kParts = 256, kStep = 16;
  const i64 length = (n / kParts / 4096 + 1) * 4096, parts = (n + length - 1) / length;
  double sums[kParts];
  each_item(parts, n, team, [&](i64 p) {
    const i64 end = least(n, (p + 1) * length);
    double lanes[kStep] = {};
    i64 i = p * length;
    for (; i + kStep <= end; i += kStep)
      for (i64 j = 0; j < kStep; ++j) lanes[j] += f(static_cast<double>(x[i + j]));
    for (i64 j = 0; i + j < end; ++j) lanes[j] += f(static_cast<double>(x[i + j]));
    double s = 0;
    for (const double lane : lanes) s += lane;
    sums[p] = s;
  });
  double s = 0;
  for (i64 p = 0; p < parts; ++p) s += sums[p];
  return s;
}

}  // namespace

void compute(const op::Sum& op, Team& team) {
  *data_of<double>(op.y) += sum_in_order(op.x, team, [](double v) { return v; });
}

void compute(const op::SumSquares& op, Team& team) {
  *data_of<double>(op.y) += sum_in_order(op.x, team, [](double v) { return v * v; });
}

void compute(const op::AdamW& op, Team& team) {
  const math::AdamWStep how = op.scalars();
  float *master = data_of<float>(op.master), *m = data_of<float>(op.m), *v = data_of<float>(op.v);
  const auto* grad = data_of<const float>(op.grad);
  each_span(1, elements_of(op.master), true, team, [&](i64, i64 first, i64 count) {
    each_vector(count, [&](auto part, i64 j) {
      const i64 i = first + j;
      Vec p = part.load(master + i), pm = part.load(m + i), pv = part.load(v + i);
      steps::adamw(p, pm, pv, part.load(grad + i), how);
      part.store(master + i, p);
      part.store(m + i, pm);
      part.store(v + i, pv);
    });
  });
}

void compute(const op::Lion& op, Team& team) {
  const math::LionStep how = op.scalars();
  float *master = data_of<float>(op.master), *m = data_of<float>(op.m);
  const auto* grad = data_of<const float>(op.grad);
  each_span(1, elements_of(op.master), true, team, [&](i64, i64 first, i64 count) {
    each_vector(count, [&](auto part, i64 j) {
      const i64 i = first + j;
      Vec p = part.load(master + i), pm = part.load(m + i);
      steps::lion(p, pm, part.load(grad + i), how);
      part.store(master + i, p);
      part.store(m + i, pm);
    });
  });
}

void compute(const op::Sgd& op, Team& team) {
  auto* master = data_of<float>(op.master);
  const auto* grad = data_of<const float>(op.grad);
  each_span(1, elements_of(op.master), true, team, [&](i64, i64 first, i64 count) {
    each_vector(count, [&](auto part, i64 j) {
      float* p = master + first + j;
      part.store(p, steps::sgd(part.load(p), part.load(grad + first + j), op.lr, op.decay, op.grad_scale));
    });
  });
}

}  // namespace ft::cpu::FT_TARGET
