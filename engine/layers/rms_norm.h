// Root mean square normalisation with a learned scale (Zhang and Sennrich 2019). Gemma stores the scale minus
// 1.
#pragma once
#include "engine/layers/visitor.h"
#include "engine/pass/context.h"

namespace ft {

struct RmsNorm {
  Parameter weight;  // (C)
  float eps = 1e-6f;
  float offset = 0;

  // y = norm(x) (offset + w); rstd (rows) f32, for backward. Calling it again gives the same bits, and is
  // cheaper than keeping y.
  void forward(Ctx&, Tensor y, Tensor rstd, Tensor x) const;
  void backward(Ctx&, Tensor dx, Tensor dy, Tensor x, Tensor rstd) const;  // dx +=
  bool trains() const { return static_cast<bool>(weight.grad); }
  static Tensor take_statistics(Arena& arena, std::int64_t rows) { return arena.take({rows}, DType::f32); }
  void visit(Visitor& v) { v.parameter(weight); }
};

inline RmsNorm make_rms_norm(std::string module, std::int64_t width, float eps, DType dtype,
                             float offset = 0) {
  return {Parameter{.name = module + ".weight", .shape = {width}, .dtype = dtype, .decays = false}, eps,
          offset};
}

}  // namespace ft
