#include "engine/ops/optimizer.h"

#include <cmath>

#include "engine/ops/checks.h"

namespace ft::op {
namespace {

void check_sum(const Tensor& y, const Tensor& x) {
  require(is_vector(y, 1, DType::f64), "sum, sum_squares: y is not one f64");
  require(x.dtype == DType::f32 && x.dense(), "sum, sum_squares: x is not dense f32");
}

}  // namespace

void Sum::check() const { check_sum(y, x); }
void SumSquares::check() const { check_sum(y, x); }

void AdamW::check() const {
  const std::int64_t n = master.numel();
  require(is_vector(master, n, DType::f32) && is_vector(m, n, DType::f32) && is_vector(v, n, DType::f32) &&
              is_vector(grad, n, DType::f32),
          "adamw: master, m, v and grad are not dense f32 of one size");
  require(step >= 1, "adamw: steps count from 1");
}
math::AdamWStep AdamW::scalars() const {
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
  const std::int64_t n = master.numel();
  require(is_vector(master, n, DType::f32) && is_vector(m, n, DType::f32) && is_vector(grad, n, DType::f32),
          "lion: master, m and grad are not dense f32 of one size");
}
math::LionStep Lion::scalars() const {
  return {.keep = float(1 - lr * decay),
          .beta1 = float(beta1),
          .rest1 = float(1 - beta1),
          .beta2 = float(beta2),
          .rest2 = float(1 - beta2),
          .rate = float(lr),
          .grad_scale = grad_scale};
}

void Sgd::check() const {
  const std::int64_t n = master.numel();
  require(is_vector(master, n, DType::f32) && is_vector(grad, n, DType::f32),
          "sgd: master and grad are not dense f32 of one size");
}

}  // namespace ft::op
