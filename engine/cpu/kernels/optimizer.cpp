// Sums of f32 in f64, and the optimizers' updates, on dense f32.
#include "engine/cpu/kernels/eight_bit.h"
#include "engine/cpu/kernels/leaf_functions.h"
#include "engine/cpu/kernels/step_each.h"

namespace ft::cpu::FT_TARGET {
namespace {

// The sum of f(x[i]) in f64: at most 256 parts, whose number and bounds depend only on n, added in order.
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
  if (op.m_largest)
    step_each_block(op.master, op.value, {{op.m, op.m_largest, true}, {op.v, op.v_largest, false}}, op.grad,
                    team, op.scalars());
  else
    step_each({op.master, op.m, op.v}, op.value, op.grad, team, op.scalars());
}

void compute(const op::Lion& op, Team& team) {
  if (op.m_largest)
    step_each_block(op.master, op.value, {{op.m, op.m_largest, true}}, op.grad, team, op.scalars());
  else
    step_each({op.master, op.m}, op.value, op.grad, team, op.scalars());
}

void compute(const op::AdEMAMix& op, Team& team) {
  if (op.m_largest)
    step_each_block(
        op.master, op.value,
        {{op.m, op.m_largest, true}, {op.slow, op.slow_largest, true}, {op.v, op.v_largest, false}}, op.grad,
        team, op.scalars());
  else
    step_each({op.master, op.m, op.slow, op.v}, op.value, op.grad, team, op.scalars());
}

void compute(const op::Sgd& op, Team& team) {
  if (op.buffer)
    step_each({op.master, op.buffer}, op.value, op.grad, team, op.with_momentum());
  else
    step_each({op.master}, op.value, op.grad, team, op.scalars());
}

void compute(const op::Adagrad& op, Team& team) {
  step_each({op.master, op.sum}, op.value, op.grad, team, op.scalars());
}

void compute(const op::RmsProp& op, Team& team) {
  const steps::RmsPropScalars how = op.scalars();
  if (op.mean && op.buffer)
    step_each({op.master, op.square, op.mean, op.buffer}, op.value, op.grad, team,
              steps::RmsProp<true, true>{how});
  else if (op.mean)
    step_each({op.master, op.square, op.mean}, op.value, op.grad, team, steps::RmsProp<true, false>{how});
  else if (op.buffer)
    step_each({op.master, op.square, op.buffer}, op.value, op.grad, team, steps::RmsProp<false, true>{how});
  else
    step_each({op.master, op.square}, op.value, op.grad, team, steps::RmsProp<false, false>{how});
}

void compute(const op::FirstMoment& op, Team& team) {
  auto* y = data_of<float>(op.y);
  const auto *m = data_of<const float>(op.m), *g = data_of<const float>(op.grad);
  const steps::FirstMoment how = op.scalars();
  each_span(1, elements_of(op.y), true, team, [&](i64, i64 first, i64 count) {
    each_vector(count, [&](auto part, i64 j) {
      const i64 i = first + j;
      const Vec moment = how(part.load(m + i), part.load(g + i));
      part.store(y + i, op.adds ? part.load(y + i) + moment : moment);
    });
  });
}

void compute(const op::PlainAdam& op, Team& team) {
  auto *p = data_of<float>(op.master), *v = data_of<float>(op.v);
  const auto *m = data_of<const float>(op.m), *g = data_of<const float>(op.grad);
  const steps::PlainAdam how = op.scalars();
  each_span(1, elements_of(op.master), true, team, [&](i64, i64 first, i64 count) {
    each_vector(count, [&](auto part, i64 j) {
      const i64 i = first + j;
      Vec second = part.load(v + i);
      if (g) part.store(v + i, second = how.second_moment(second, part.load(g + i)));
      part.store(p + i, how.step(part.load(p + i), part.load(m + i), second));
    });
  });
}

void compute(const op::Average& op, Team& team) { step_each({op.mean}, {}, op.x, team, op.scalars()); }

}  // namespace ft::cpu::FT_TARGET
