// The feed-forward layer: down(f(gate(x)) * up(x)) (Shazeer, "GLU variants improve transformer", 2020), or
// without an up down(f(gate(x))).
#pragma once
#include <optional>

#include "engine/nn/dropout.h"
#include "engine/nn/siblings.h"

namespace ft {

struct Mlp {
  Linear gate_proj;
  std::optional<Linear> up_proj;
  Linear down_proj;
  Activation activation = Activation::silu;
  Dropout dropout;  // of what down_proj reads

  struct Saved {
    Tensor gate, up;   // (rows, F)
    Tensor u, down_u;  // of the adapters of gate and up, and of down
  };
  Saved forward(Ctx&, Tensor y, Tensor x, Tensor residual) const;  // y = residual + mlp(x)
  // dx = the gradient of x (empty: not wanted). Overwrites what is saved.
  void backward(Ctx&, Tensor dx, Tensor dy, Tensor x, const Saved&) const;
  bool reads_input() const { return gate_proj.reads_input() || (up_proj && up_proj->reads_input()); }
  void visit(Visitor&);

 private:
  Tensor inner(Ctx&, const Saved&) const;  // what down_proj reads
};

}  // namespace ft
