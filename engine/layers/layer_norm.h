// Layer normalisation with a learned scale and bias, or without both (Ba et al. 2016).
#pragma once
#include "engine/layers/visitor.h"
#include "engine/pass/context.h"

namespace ft {

struct LayerNorm {
  Parameter weight, bias;  // (C)
  float eps = 1e-5f;
  bool affine = true;  // false: it has neither weight nor bias

  // y = norm(x) w + b; statistics (2, rows) f32, means and inverse deviations, for backward.
  void forward(Ctx&, Tensor y, Tensor statistics, Tensor x) const;
  void backward(Ctx&, Tensor dx, Tensor dy, Tensor x, Tensor statistics) const;  // dx +=
  bool trains() const { return weight.grad || bias.grad; }
  static Tensor take_statistics(Arena& arena, std::int64_t rows) { return arena.take({2, rows}, DType::f32); }
  void visit(Visitor& v) {
    if (!affine) return;
    v.parameter(weight);
    v.parameter(bias);
  }
};

inline LayerNorm make_layer_norm(const std::string& module, std::int64_t width, float eps, DType dtype) {
  return {Parameter{.name = module + ".weight", .shape = {width}, .dtype = dtype, .decays = false},
          Parameter{.name = module + ".bias", .shape = {width}, .dtype = dtype, .decays = false}, eps};
}

}  // namespace ft
