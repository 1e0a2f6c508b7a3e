// Operations on square matrices that stand side by side: (n, J n) holds J matrices of n rows and columns.
#pragma once
#include "engine/ops/roles.h"

namespace ft::op {

// Multiplies each block of n columns of x with a matrix: y_j = x_j b_(j mod J) + diagonal I, in f32, rounded
// once. y is neither x nor b.
struct BlockProducts {
  static constexpr const char* kName = "block_products";
  Out y;  // (m, k n)
  In x;   // (m, k n) of y's type
  In b;   // (n, J n) f32
  float diagonal = 0;

  void check() const;
  double flops() const { return 2.0 * static_cast<double>(y.numel()) * static_cast<double>(b.rows()); }
  void operands(auto&& visit) const {
    visit("y", y);
    visit("x", x);
    visit("b", b);
  }
};

// The gradient of b: db_i += the sum of x_j^T dy_j over the j with j mod J = i.
struct BlockProductsGrad {
  static constexpr const char* kName = "block_products_grad";
  Acc db;  // (n, J n) f32
  In x;    // (m, k n)
  In dy;   // (m, k n)

  void check() const;
  double flops() const { return 2.0 * static_cast<double>(dy.numel()) * static_cast<double>(db.rows()); }
  void operands(auto&& visit) const {
    visit("db", db);
    visit("x", x);
    visit("dy", dy);
  }
};

// Makes skew-symmetric matrices: above y_j's diagonal is row j of x, in the order of rows, times `sign`;
// below it the same with the other sign.
struct SkewMatrices {
  static constexpr const char* kName = "skew_matrices";
  Out y;  // (n, J n) f32
  In x;   // (J, n (n - 1) / 2) f32
  float sign = 1;

  void check() const;
  void operands(auto&& visit) const {
    visit("y", y);
    visit("x", x);
  }
};

// The gradient of SkewMatrices with sign 1.
struct SkewMatricesGrad {
  static constexpr const char* kName = "skew_matrices_grad";
  Acc dx;  // (J, n (n - 1) / 2) f32
  In dy;   // (n, J n) f32

  void check() const;
  void operands(auto&& visit) const {
    visit("dx", dx);
    visit("dy", dy);
  }
};

}  // namespace ft::op
