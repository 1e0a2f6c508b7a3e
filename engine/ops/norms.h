// Norms of rows.
#pragma once
#include "engine/ops/roles.h"

namespace ft::op {

// y = x * rstd * w with rstd (rows) f32 = 1 / sqrt(mean(x^2) + eps). Zhang and Sennrich 2019.
struct RmsNorm {
  static constexpr const char* kName = "rms_norm";
  Out y;
  Out rstd;
  In x;
  In w;  // (C)
  float eps;

  void check() const;
  void operands(auto&& visit) const {
    visit("y", y);
    visit("rstd", rstd);
    visit("x", x);
    visit("w", w);
  }
};

struct RmsNormGrad {
  static constexpr const char* kName = "rms_norm_grad";
  Acc dx = Tensor{};
  Acc dw = Tensor{};  // (C) f32
  In dy;
  In x;
  In w;
  In rstd;

  void check() const;
  void operands(auto&& visit) const {
    visit("dx", dx);
    visit("dw", dw);
    visit("dy", dy);
    visit("x", x);
    visit("w", w);
    visit("rstd", rstd);
  }
};

}  // namespace ft::op
