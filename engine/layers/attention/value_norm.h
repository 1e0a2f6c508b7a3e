// Root mean square normalisation of each head's values, without a scale (Gemma 4).
#pragma once
#include "engine/pass/context.h"

namespace ft {

struct ValueNorm {
  std::int64_t width = 0;  // D
  float eps = 1e-6f;

  // Takes memory for the statistics that backward needs.
  Tensor take_statistics(Arena& arena, const Tensor& x) const {
    return arena.take({x.numel() / width}, DType::f32);
  }
  void forward(Ctx&, Tensor y, Tensor statistics, Tensor x) const;
  void backward(Ctx&, Tensor dx, Tensor dy, Tensor x, Tensor statistics) const;  // dx +=

 private:
  Tensor by_head(const Tensor& t) const { return t.view({t.numel() / width, width}); }
  Tensor ones(Ctx&) const;
};

}  // namespace ft
