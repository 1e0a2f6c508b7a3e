// A layer that mixes the block's per-layer input into the stream (Gemma 4's small models):
//   projection(f(gate(x)) * input)
#pragma once
#include "engine/layers/linear.h"
#include "engine/ops/elementwise.h"

namespace ft {

struct PerLayerInput {
  Linear gate, projection;  // (p, C), (C, p)
  Activation activation = Activation::gelu_tanh;
  std::int64_t layer = 0;  // number among the columns of Positions::per_layer

  struct Saved {
    Tensor gate;       // (rows, p)
    Tensor u, down_u;  // of the adapters
  };
  std::string_view name() const { return gate.name; }
  // Returns this layer's columns of a tensor for all layers (rows, layers p); empty if that is empty.
  Tensor own(const Tensor& all) const {
    const std::int64_t width = projection.in;
    return all ? all.columns(layer * width, (layer + 1) * width) : Tensor{};
  }
  // y = residual + layer(x); with an empty y it computes only what backward needs.
  Saved forward(Ctx&, Tensor y, Tensor x, Tensor residual, Tensor input) const;
  // dx = the gradient of x, dinput the gradient of the input (each empty: not wanted). x may be empty when
  // !reads_input(). Overwrites the saved tensors.
  void backward(Ctx&, Tensor dx, Tensor dy, Tensor x, Tensor input, Tensor dinput, const Saved&) const;
  bool reads_input() const { return gate.reads_input(); }
  void visit(Visitor& v) {
    gate.visit(v);
    projection.visit(v);
  }

 private:
  Tensor inner(Ctx&, Tensor gate, Tensor input) const;
};

}  // namespace ft
