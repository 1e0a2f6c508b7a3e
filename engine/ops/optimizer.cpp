#include "engine/ops/optimizer.h"

#include <cmath>
#include <initializer_list>

#include "engine/core/divide.h"
#include "engine/ops/checks.h"

namespace ft::op {
namespace {

void check_sum(const Tensor& y, const Tensor& x) {
  require(is_vector(y, 1, DType::f64), "sum, sum_squares: y is not one f64");
  require(x.dtype == DType::f32 && x.dense(), "sum, sum_squares: x is not dense f32");
}

// Ignores empty tensors.
void check_step(const char* wrong, const Tensor& master, std::initializer_list<Tensor> others) {
  const std::int64_t n = master.numel();
  require(is_vector(master, n, DType::f32), wrong);
  for (const Tensor& t : others) require(is_vector_if_there(t, n, DType::f32), wrong);
}

void check_value(const Tensor& value, const Tensor& master) {
  require(!value || ((value.dtype == DType::bf16 || value.dtype == DType::f16) &&
                     is_vector(value, master.numel(), value.dtype)),
          "step: value is not dense bf16 or f16 of the master's size");
}

void check_coded(const char* wrong, std::int64_t n, std::initializer_list<Tensor> codes,
                 std::initializer_list<Tensor> largest) {
  for (const Tensor& t : codes) require(is_vector(t, n, DType::u8), wrong);
  for (const Tensor& t : largest) require(is_vector(t, ceil_div(n, kCodedBlock), DType::f32), wrong);
}

}  // namespace

void Sum::check() const { check_sum(y, x); }
void SumSquares::check() const { check_sum(y, x); }

void AdamW::check() const {
  check_value(value, master);
  const char* const wrong = "adamw: master, m, v and grad are not dense f32 of one size";
  check_step(wrong, master, {grad});
  if (m_largest)
    check_coded("adamw: m and v are not codes in blocks", master.numel(), {m, v}, {m_largest, v_largest});
  else
    check_step(wrong, master, {m, v});
  require(m && v && step >= 1, "adamw: steps count from 1 and need m and v");
}
steps::AdamW AdamW::scalars() const {
  const double n = double(step);
  return {.keep = decoupled ? float(1 - lr * decay) : 1.0f,
          .l2 = decoupled ? 0.0f : float(decay),
          .beta1 = float(beta1),
          .rest1 = float(1 - beta1),
          .beta2 = float(beta2),
          .rest2 = float(1 - beta2),
          .rate = float(lr / (1 - std::pow(beta1, n))),
          .root = float(1 / std::sqrt(1 - std::pow(beta2, n))),
          .eps = float(eps),
          .grad_scale = grad_scale};
}

void Lion::check() const {
  check_value(value, master);
  const char* const wrong = "lion: master, m and grad are not dense f32 of one size";
  check_step(wrong, master, {grad});
  if (m_largest)
    check_coded("lion: m is not codes in blocks", master.numel(), {m}, {m_largest});
  else
    check_step(wrong, master, {m});
  require(bool(m), "lion: no m");
}
steps::Lion Lion::scalars() const {
  return {.keep = float(1 - lr * decay),
          .beta1 = float(beta1),
          .rest1 = float(1 - beta1),
          .beta2 = float(beta2),
          .rest2 = float(1 - beta2),
          .rate = float(lr),
          .grad_scale = grad_scale};
}

void AdEMAMix::check() const {
  check_value(value, master);
  const char* const wrong = "ademamix: master, m, slow, v and grad are not dense f32 of one size";
  check_step(wrong, master, {grad});
  if (m_largest)
    check_coded("ademamix: m, slow and v are not codes in blocks", master.numel(), {m, slow, v},
                {m_largest, slow_largest, v_largest});
  else
    check_step(wrong, master, {m, slow, v});
  require(m && slow && v && step >= 1, "ademamix: steps count from 1 and need m, slow and v");
}
steps::AdEMAMix AdEMAMix::scalars() const {
  const double n = double(step);
  return {.keep = float(1 - lr * decay),
          .beta1 = float(beta1),
          .rest1 = float(1 - beta1),
          .beta2 = float(beta2),
          .rest2 = float(1 - beta2),
          .beta3 = float(beta3),
          .rest3 = float(1 - beta3),
          .rate = float(lr / (1 - std::pow(beta1, n))),
          .slow_rate = float(lr * alpha),
          .root = float(1 / std::sqrt(1 - std::pow(beta2, n))),
          .eps = float(eps),
          .grad_scale = grad_scale};
}

void Sgd::check() const {
  check_value(value, master);
  check_step("sgd: master, buffer and grad are not dense f32 of one size", master, {buffer, grad});
  require(buffer || momentum == 0, "sgd: momentum without a buffer");
  require(step >= 1, "sgd: steps count from 1");
}
steps::Sgd Sgd::scalars() const { return {.lr = float(lr), .decay = float(decay), .grad_scale = grad_scale}; }
steps::Momentum Sgd::with_momentum() const {
  const bool first = step == 1;
  return {.lr = float(lr),
          .decay = float(decay),
          .grad_scale = grad_scale,
          .momentum = first ? 0.0f : float(momentum),
          .rest = first ? 1.0f : float(1 - dampening),
          .ahead = nesterov ? float(momentum) : 0.0f};
}

void Adagrad::check() const {
  check_value(value, master);
  check_step("adagrad: master, sum and grad are not dense f32 of one size", master, {sum, grad});
  require(sum && step >= 1, "adagrad: steps count from 1 and need a sum");
}
steps::Adagrad Adagrad::scalars() const {
  return {.rate = float(lr / (1 + double(step - 1) * lr_decay)),
          .decay = float(decay),
          .eps = float(eps),
          .grad_scale = grad_scale};
}

void RmsProp::check() const {
  check_value(value, master);
  check_step("rmsprop: master, square, mean, buffer and grad are not dense f32 of one size", master,
             {square, mean, buffer, grad});
  require(bool(square), "rmsprop: no square");
}
steps::RmsPropScalars RmsProp::scalars() const {
  return {.lr = float(lr),
          .alpha = float(alpha),
          .rest = float(1 - alpha),
          .momentum = float(momentum),
          .decay = float(decay),
          .eps = float(eps),
          .grad_scale = grad_scale};
}

void FirstMoment::check() const {
  check_step("first_moment: y, m and grad are not dense f32 of one size", y, {m, grad});
  require(m && grad, "first_moment: no m, or no gradient");
}
steps::FirstMoment FirstMoment::scalars() const {
  return {.beta = float(beta), .rest = float(1 - beta), .grad_scale = grad_scale};
}

void PlainAdam::check() const {
  check_step("plain_adam: master, v, m and grad are not dense f32 of one size", master, {v, m, grad});
  require(v && m, "plain_adam: no v, or no m");
}
steps::PlainAdam PlainAdam::scalars() const {
  return {.keep = float(1 - lr * decay),
          .beta2 = float(beta2),
          .rest2 = float(1 - beta2),
          .rate = float(lr),
          .eps = float(eps),
          .grad_scale = grad_scale};
}

void Average::check() const { check_step("average: mean and x are not dense f32 of one size", mean, {x}); }
steps::Average Average::scalars() const { return {.rest = float(rest)}; }

}  // namespace ft::op
