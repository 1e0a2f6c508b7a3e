#include "engine/ops/block_products.h"

#include "engine/ops/checks.h"

namespace ft::op {
namespace {

bool are_square(const Tensor& b) {
  return b.dtype == DType::f32 && b.rows() >= 1 && b.cols() >= b.rows() && b.cols() % b.rows() == 0;
}
bool in_blocks(const Tensor& x, const Tensor& b) { return is_float(x) && x.cols() % b.rows() == 0; }
bool are_above(const Tensor& x, const Tensor& y) {
  const std::int64_t n = y.rows();
  return x.dtype == DType::f32 && x.rows() == y.cols() / n && x.cols() == n * (n - 1) / 2;
}

}  // namespace

void BlockProducts::check() const {
  require(are_square(b), "block_products: b is not square matrices side by side, f32");
  require(in_blocks(x, b) && alike(y, x),
          "block_products: x is not blocks of b's rows, or y differs from it");
  require(x.cols() >= b.cols(), "block_products: more matrices than blocks");
}

void BlockProductsGrad::check() const {
  require(are_square(db), "block_products_grad: db is not square matrices side by side, f32");
  require(in_blocks(x, db) && alike(dy, x),
          "block_products_grad: x is not blocks of db's rows, or dy differs from it");
  require(x.cols() >= db.cols(), "block_products_grad: more matrices than blocks");
}

void SkewMatrices::check() const {
  require(are_square(y) && are_above(x, y),
          "skew_matrices: y is not square matrices side by side, or x not what is above their diagonals");
}

void SkewMatricesGrad::check() const {
  require(are_square(dy) && are_above(dx, dy),
          "skew_matrices_grad: dy is not square matrices side by side, or dx not what is above their "
          "diagonals");
}

}  // namespace ft::op
