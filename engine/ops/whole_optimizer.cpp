#include "engine/ops/whole_optimizer.h"

#include "engine/ops/checks.h"

namespace ft::op {
namespace {

bool is_narrow_or_f32(const Tensor& t, std::int64_t n) {
  return is_vector(t, n, DType::f32) || is_vector(t, n, DType::bf16);
}

void check_factored(const Tensor& grad, const Tensor& row, const Tensor& col) {
  require(
      is_vector(grad, row.numel() * col.numel(), DType::f32) && grad.cols() == col.numel() &&
          is_vector(row, row.numel(), DType::f32) && is_vector(col, col.numel(), DType::f32),
      "factored means and update: grad is not a dense f32 matrix with row and col for its rows and columns");
}

void check_pair(const Tensor& a, const Tensor& b) {
  require(is_vector(a, a.numel(), DType::f32) && is_vector(b, a.numel(), DType::f32),
          "root_update, muon_momentum: not two dense f32 of one size");
}

}  // namespace

void FactoredMeans::check() const { check_factored(grad, row, col); }

void FactoredUpdate::check() const {
  check_factored(grad, row, col);
  require(is_vector(row_sum, 1, DType::f64), "factored_update: row_sum is not one f64");
}

void RootUpdate::check() const { check_pair(v, grad); }
steps::RootUpdate RootUpdate::scalars() const {
  return {.beta2 = float(beta2), .rest = float(1 - beta2), .eps = float(eps), .grad_scale = grad_scale};
}

void MuonMomentum::check() const { check_pair(m, grad); }
steps::MuonMomentum MuonMomentum::scalars() const {
  return {.rest = float(1 - momentum), .ahead = nesterov ? float(momentum) : 1.0f, .grad_scale = grad_scale};
}

void Scale::check() const {
  require(is_narrow_or_f32(y, x.numel()) && is_narrow_or_f32(x, x.numel()) &&
              is_vector_if_there(squares, 1, DType::f64),
          "scale: y and x are not dense f32 or bf16 of one size");
}

void Descend::check() const {
  require(is_vector(master, update.numel(), DType::f32) && is_narrow_or_f32(update, update.numel()) &&
              is_vector_if_there(squares, 1, DType::f64),
          "descend: master and update are not dense f32, and f32 or bf16, of one size");
}

}  // namespace ft::op
