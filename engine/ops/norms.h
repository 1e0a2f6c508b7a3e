// Norms of rows.
#pragma once
#include "engine/ops/roles.h"

namespace ft::op {

// y = x * rstd * (offset + w) with rstd (rows) f32 = 1 / sqrt(mean(x^2) + eps). Zhang and Sennrich 2019; an
// offset of 1 is Gemma's.
struct RmsNorm {
  static constexpr const char* kName = "rms_norm";
  Out y;
  Out rstd;
  In x;
  In w;  // (C)
  float eps;
  float offset = 0;

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
  float offset = 0;

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

// torch.nn.LayerNorm (Ba et al. 2016): y = (x - mean) * rstd * w + b, with each row's mean and rstd (rows)
// f32: mean = sum(x) / C, rstd = 1 / sqrt(sum((x - mean)^2) / C + eps).
struct LayerNorm {
  static constexpr const char* kName = "layer_norm";
  Out y;
  Out mean, rstd;
  In x;
  In w = Tensor{}, b = Tensor{};  // (C); without them w is 1 and b is 0
  float eps;

  void check() const;
  void operands(auto&& visit) const {
    visit("y", y);
    visit("mean", mean);
    visit("rstd", rstd);
    visit("x", x);
    visit("w", w);
    visit("b", b);
  }
};

// With n = (x - mean) * rstd and g = dy * w: dx += rstd * (g - sum(g) / C - n * sum(g n) / C), with sums over
// the row; dw += the sum of dy * n, db += the sum of dy, both over all rows.
struct LayerNormGrad {
  static constexpr const char* kName = "layer_norm_grad";
  Acc dx = Tensor{};
  Acc dw = Tensor{}, db = Tensor{};  // (C) f32
  In dy;
  In x;
  In w = Tensor{};
  In mean, rstd;

  void check() const;
  void operands(auto&& visit) const {
    visit("dx", dx);
    visit("dw", dw);
    visit("db", db);
    visit("dy", dy);
    visit("x", x);
    visit("w", w);
    visit("mean", mean);
    visit("rstd", rstd);
  }
};

}  // namespace ft::op
