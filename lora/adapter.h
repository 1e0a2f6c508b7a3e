// Low-rank adaptation (Hu et al. 2021): y += s (dropout(x) A^T) B^T with s = alpha / r, or alpha / sqrt(r)
// for rank-stabilised LoRA (Kalajdzievski 2023). A (r, in) and B (out, r) are trained, the Linear is not. The
// scale is folded into the two thin products, so that the wide ones are plain terms of the Linear's own sums.
#pragma once
#include "engine/nn/linear.h"

namespace ft::lora {

class LoraAdapter final : public Adapter {
 public:
  // `module` is PEFT's name of the adapted Linear: base_model.model.model.layers.0.self_attn.q_proj
  LoraAdapter(const std::string& module, std::int64_t in, std::int64_t out, std::int64_t rank, float scale,
              float dropout, DType dtype);

  Tensor forward(Ctx&, Sum& y, Tensor x) const override;  // returns u = s x A^T (rows, r)
  void backward(Ctx&, Sum& dx, Tensor dy, Tensor x, Tensor u) const override;
  void visit(Visitor& v) override {
    v.parameter(a);
    v.parameter(b);
  }

  std::int64_t rank() const { return a.shape[0]; }
  float scale() const { return scale_; }

  Parameter a, b;  // ....lora_A.weight, ....lora_B.weight

 private:
  Tensor dropped(Ctx&, Tensor x) const;
  Random mask(const Ctx& c) const { return c.random.with(a.name); }

  float scale_, dropout_;
};

}  // namespace ft::lora
