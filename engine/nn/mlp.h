// The gated feed-forward layer: down(f(gate(x)) * up(x)). Shazeer, "GLU variants improve transformer", 2020.
#pragma once
#include "engine/nn/linear.h"

namespace ft {

struct GatedMlp {
  Linear gate_proj, up_proj, down_proj;
  Activation activation = Activation::silu;

  struct Saved {
    Tensor gate, up;  // (rows, F)
    Tensor adapter[3];
  };
  Saved forward(Ctx&, Tensor y, Tensor x, Tensor residual) const;  // y = residual + mlp(x)
  // dx = the gradient of x (empty: not wanted). Overwrites what is saved.
  void backward(Ctx&, Tensor dx, Tensor dy, Tensor x, const Saved&) const;
  bool reads_input() const { return gate_proj.reads_input() || up_proj.reads_input(); }
  void visit(Visitor& v) {
    for (Linear* l : {&gate_proj, &up_proj, &down_proj}) l->visit(v);
  }
};

}  // namespace ft
