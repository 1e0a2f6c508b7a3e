// Low-rank adaptation (Hu et al. 2021): y += s (dropout(x) A^T) B^T with s = alpha / r, or alpha / sqrt(r)
// for rank-stabilised LoRA (Kalajdzievski 2023). A (r, in) and B (out, r) are trained, the Linear is not. The
// scale is folded into the two narrow products, so that the wide products are plain terms of the Linear's
// sums.
//
// PEFT's lora_bias adds a trained vector (out) to B's output, so that y += s bias too.
#pragma once
#include <vector>

#include "lora/linear_adapter.h"

namespace ft::lora {

class LoraAdapter : public LinearAdapter {
 public:
  // `module` is PEFT's name of the adapted Linear: base_model.model.model.layers.0.self_attn.q_proj
  LoraAdapter(const std::string& module, std::int64_t in, std::int64_t out, std::int64_t rank, float scale,
              float dropout, DType dtype, bool has_bias = false);

  std::int64_t width() const override { return rank(); }
  void down(Ctx&, Tensor u, Tensor x) const override;  // u = s x A^T
  void up(Sum& y, Tensor u) const override;
  void up_grad(Ctx&, Tensor du, Tensor dy, Tensor u) const override;  // du = s dy B
  void down_grad(Ctx&, Sum& dx, Tensor du, Tensor x) const override;
  std::optional<DownMatrix> down_matrix(const Ctx& c) const override {
    if (drops(c)) return {};
    return matrix();
  }
  void merge_into(Ctx&, Tensor w) const override;
  void visit_down(Visitor& v) override { v.parameter(a); }
  std::optional<OutputBias> output_bias() const override {
    if (!bias) return {};
    return OutputBias{bias->value, bias->grad, scale_};
  }
  void visit_up(Visitor& v) override {
    v.parameter(b);
    if (bias) v.parameter(*bias);
  }
  void cut(Cut, TensorRank, const Parts&) override;

  std::int64_t rank() const { return a.shape[0]; }
  float scale() const { return scale_; }

  std::vector<Parameter*> trained() override {
    if (bias) return {&a, &b, &*bias};
    return {&a, &b};
  }
  // A bias changes outputs too.
  const Parameter* neutral_at_zero() const override { return bias ? nullptr : &b; }
  void initialize(const Parameter&, LoraInit, Random, Tensor y, std::int64_t first) const override;
  void merge(Ops&, const ParameterValues&, Tensor y, bool turned) const override;
  bool changes_bias() const override { return bias.has_value(); }
  void merge_bias(const ParameterValues&, Tensor y) const override;

  Parameter a, b;                 // ....lora_A.weight, ....lora_B.weight
  std::optional<Parameter> bias;  // ....lora_B.bias (out); with lora_bias

 protected:
  DownMatrix matrix() const { return {a.value, a.grad, scale_}; }
  bool drops(const Ctx& c) const { return dropout_ > 0 && c.train; }
  // Dropout mask of A's input: a function of the step and A's name, so that the backward pass computes the
  // same mask.
  Random mask(const Ctx& c) const { return c.random.with(a.name); }
  void drop(Ctx&, Tensor y, Tensor x) const;

 private:
  Tensor dropped(Ctx&, Tensor x) const;

  float scale_, dropout_;
};

// Returns an adapter of the kind LoRA, DoRA's too.
inline LoraAdapter& as_lora(LinearAdapter& a) { return dynamic_cast<LoraAdapter&>(a); }

// Adds s B A to y (out, in), or its transpose to y (in, out) (`turned`), in f32.
void add_product(Ops&, Tensor y, Tensor a, Tensor b, float scale, bool turned);

}  // namespace ft::lora
