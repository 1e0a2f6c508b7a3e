// Operations for Linears whose output columns are rescaled by learnt magnitudes (DoRA, Liu et al. 2024), see
// engine/layers/rescaled.h.
#pragma once
#include "engine/ops/roles.h"

namespace ft::op {

// Norms of the rows of a matrix V (n): sqrt(squares[i] + sum over k of b[i, k] p[k, i]). scale[i] =
// magnitude[i] / norm, per_norm[i] = 1 / norm. b may have any type; the other tensors are f32.
struct Magnitudes {
  static constexpr const char* kName = "magnitudes";
  Out scale, per_norm;  // (n)
  In magnitude;         // (n)
  In squares;           // (n)
  In b;                 // (n, R)
  In p;                 // (R, n)

  void check() const;
  void operands(auto&& visit) const {
    visit("scale", scale);
    visit("per_norm", per_norm);
    visit("magnitude", magnitude);
    visit("squares", squares);
    visit("b", b);
    visit("p", p);
  }
};

// y[r, i] = scale[i] x[r, i] + bias[i]; y may be x.
struct ScaleColumns {
  static constexpr const char* kName = "scale_columns";
  Out y;
  In x;
  In scale;            // (cols) f32
  In bias = Tensor{};  // (cols)

  void check() const;
  void operands(auto&& visit) const {
    visit("y", y);
    visit("x", x);
    visit("scale", scale);
    visit("bias", bias);
  }
};

// y[i] += scale[i] times the sum over rows of a[r, i] b[r, i].
struct ColumnDots {
  static constexpr const char* kName = "column_dots";
  Acc y;  // (cols) f32
  In a, b;
  In scale;  // (cols) f32

  void check() const;
  void operands(auto&& visit) const {
    visit("y", y);
    visit("a", a);
    visit("b", b);
    visit("scale", scale);
  }
};

}  // namespace ft::op
