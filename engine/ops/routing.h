// Mixtures of experts: which experts a row of tokens goes to, and the rows of each expert side by side.
// T tokens, E experts, k of them for each token, R = T k rows; choice j of token t has the number t k + j.
#pragma once
#include "engine/ops/roles.h"

namespace ft::op {

// p = softmax(logits) by row; ids: the k largest of a row, the largest first, of equal ones the first one;
// weights: their p, or with `normalised` divided by their sum.
struct Route {
  static constexpr const char* kName = "route";
  Out weights;  // (T, k) f32
  Out ids;      // (T, k) i32
  Out p;        // (T, E) f32
  In logits;    // (T, E)
  bool normalised = false;

  void check() const;
  void operands(auto&& visit) const {
    visit("weights", weights);
    visit("ids", ids);
    visit("p", p);
    visit("logits", logits);
  }
};

// From the gradient of the weights and, for all tokens alike, of p: slope, as RouterBalance makes it.
struct RouteGrad {
  static constexpr const char* kName = "route_grad";
  Out dlogits;  // (T, E)
  In dweights;  // (T, k) f32
  In ids;
  In p;
  In slope = Tensor{};  // (E) f32
  bool normalised = false;

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

// Sorts choices by expert, those of an expert in their order.
struct GroupRows {
  static constexpr const char* kName = "group_rows";
  Out order;   // (R) i32: the number of the choice in each place
  Out tokens;  // (R) i32: its token
  Out places;  // (T, k) i32: the place of each choice
  Out starts;  // (E + 1) i32: the first place of each expert, and R
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

// How evenly all layers' tokens use the experts (Fedus et al. 2021, as transformers has it): b = E sum over e
// of f_e P_e, with N the tokens of all layers together, f_e the choices of e and P_e the sum of p_e, both
// divided by N. loss += weight b; slope_e = scale weight E f_e / N, the gradient of each p_e: none goes
// through f.
struct RouterBalance {
  static constexpr const char* kName = "router_balance";
  Acc loss;              // (1) f64
  Out slope;             // (E) f32
  In starts;             // (layers, E + 1) i32, as GroupRows makes them
  In sums;               // (layers, E) f32: of p over a layer's tokens
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
