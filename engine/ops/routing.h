// Mixtures of experts: the choice of experts for a row of tokens, and the grouping of rows by expert. T
// tokens, E experts, k of them for each token, R = T k rows; choice j of token t has the number t k + j.
#pragma once
#include "engine/ops/roles.h"
#include "engine/ops/route_rule.h"

namespace ft::op {

// For each row, p = the scores of the logits, ids = the k experts that the rule chooses by p + bias, and
// weights = their p, normalised and scaled by the rule.
struct Route {
  static constexpr const char* kName = "route";
  Out weights;         // (T, k) f32
  Out ids;             // (T, k) i32
  Out p;               // (T, E) f32
  In logits;           // (T, E)
  In bias = Tensor{};  // (E) f32
  RouteRule rule;

  void check() const;
  void operands(auto&& visit) const {
    visit("weights", weights);
    visit("ids", ids);
    visit("p", p);
    visit("logits", logits);
    visit("bias", bias);
  }
};

// dlogits from the gradient of the weights and from `slope`, the gradient of p that is the same for all
// tokens, as RouterBalance computes it.
struct RouteGrad {
  static constexpr const char* kName = "route_grad";
  Out dlogits;  // (T, E)
  In dweights;  // (T, k) f32
  In ids;
  In p;
  In slope = Tensor{};  // (E) f32
  RouteRule rule;

  void check() const;
  void check_indices() const;
  void operands(auto&& visit) const {
    visit("dlogits", dlogits);
    visit("dweights", dweights);
    visit("ids", ids);
    visit("p", p);
    visit("slope", slope);
  }
};

// Sorts choices by expert; choices of one expert keep their order.
struct GroupRows {
  static constexpr const char* kName = "group_rows";
  Out order;   // (R) i32: number of the choice at each place
  Out tokens;  // (R) i32: token of the choice at each place
  Out places;  // (T, k) i32: place of each choice
  Out starts;  // (E + 1) i32: first place of each expert, then R
  In ids;      // (T, k) i32

  void check() const;
  void check_indices() const;
  void operands(auto&& visit) const {
    visit("order", order);
    visit("tokens", tokens);
    visit("places", places);
    visit("starts", starts);
    visit("ids", ids);
  }
};

// A loss that grows when all layers' tokens use the experts unevenly (Fedus et al. 2021, as in transformers):
// b = E times the sum over e of f_e P_e. With N the tokens of all layers together, f_e is the number of
// choices of e and P_e the sum of p_e, both divided by N. loss += weight b; slope_e = scale weight E f_e / N,
// the gradient of each p_e; f is treated as a constant.
struct RouterBalance {
  static constexpr const char* kName = "router_balance";
  Acc loss;              // (1) f64
  Out slope;             // (E) f32
  In starts;             // (layers, E + 1) i32, from GroupRows
  In sums;               // (layers, E) f32: sums of p over a layer's tokens
  std::int64_t choices;  // k
  float weight = 1;
  float scale = 1;

  void check() const;
  void operands(auto&& visit) const {
    visit("loss", loss);
    visit("slope", slope);
    visit("starts", starts);
    visit("sums", sums);
  }
};

// y[r] = w[r] x[r], or sigmoid(w[r]) x[r]; y may be x.
struct ScaleRows {
  static constexpr const char* kName = "scale_rows";
  Out y;
  In x;
  In w;  // (rows) f32
  bool sigmoid = false;

  void check() const;
  void operands(auto&& visit) const {
    visit("y", y);
    visit("x", x);
    visit("w", w);
  }
};

// dx may be dy.
struct ScaleRowsGrad {
  static constexpr const char* kName = "scale_rows_grad";
  Out dx;
  Out dw;  // (rows) f32
  In dy;
  In x;
  In w;
  bool sigmoid = false;

  void check() const;
  void operands(auto&& visit) const {
    visit("dx", dx);
    visit("dw", dw);
    visit("dy", dy);
    visit("x", x);
    visit("w", w);
  }
};

}  // namespace ft::op
