// Parts of the steps of optimizers that use the gradient of a complete parameter (Adafactor, Muon). They
// replace the gradient by the update; op::Descend applies the update, to all of the master or to a part.
#pragma once
#include "engine/ops/roles.h"
#include "engine/ops/steps.h"

namespace ft::op {

// Adafactor's means for a matrix (R, C) of squares q = (grad_scale grad)^2 + eps: row (R) = beta2 row + (1 -
// beta2) mean of q over the row, and col (C) likewise over columns.
struct FactoredMeans {
  static constexpr const char* kName = "factored_means";
  InOut row, col;
  In grad;  // (R, C)
  double beta2, eps;
  float grad_scale;

  void check() const;
  void operands(auto&& visit) const {
    visit("row", row);
    visit("col", col);
    visit("grad", grad);
  }
};

// grad (R, C) = grad_scale grad / sqrt(row / mean of row) / sqrt(col); row_sum (1) f64 is the sum of row.
struct FactoredUpdate {
  static constexpr const char* kName = "factored_update";
  InOut grad;
  In row, col, row_sum;
  float grad_scale;

  void check() const;
  void operands(auto&& visit) const {
    visit("grad", grad);
    visit("row", row);
    visit("col", col);
    visit("row_sum", row_sum);
  }
};

// Adafactor's update of a vector: v = beta2 v + (1 - beta2) ((grad_scale grad)^2 + eps); grad = grad_scale
// grad / sqrt(v).
struct RootUpdate {
  static constexpr const char* kName = "root_update";
  InOut v, grad;
  double beta2, eps;
  float grad_scale;

  void check() const;
  steps::RootUpdate scalars() const;
  void operands(auto&& visit) const {
    visit("v", v);
    visit("grad", grad);
  }
};

// Muon's momentum: m = momentum m + (1 - momentum) g with g = grad_scale grad; grad = m, or with nesterov
// grad = momentum m + (1 - momentum) g.
struct MuonMomentum {
  static constexpr const char* kName = "muon_momentum";
  InOut m, grad;
  double momentum;
  bool nesterov;
  float grad_scale;

  void check() const;
  steps::MuonMomentum scalars() const;
  void operands(auto&& visit) const {
    visit("m", m);
    visit("grad", grad);
  }
};

// y = by x. With squares (1) f64, y = by x / d, where d = max(sqrt(squares), least), rounded to y's type. y
// and x have the same size, f32 or bf16, dense.
struct Scale {
  static constexpr const char* kName = "scale";
  Out y;
  In x;
  double by = 1;
  In squares = Tensor{};
  double least = 0;

  void check() const;
  void operands(auto&& visit) const {
    visit("y", y);
    visit("x", x);
    visit("squares", squares);
  }
};

// master = keep master - rate update. With squares (1) f64, the update (f32 or bf16) is first divided by
// max(1, sqrt(squares / count) / threshold). It is a part of `count` elements, whose squares sum to
// `squares`.
struct Descend {
  static constexpr const char* kName = "descend";
  InOut master;
  In update;
  double keep, rate;
  In squares = Tensor{};
  double count = 1, threshold = 1;

  void check() const;
  void operands(auto&& visit) const {
    visit("master", master);
    visit("update", update);
    visit("squares", squares);
  }
};

}  // namespace ft::op
