// LoRA of an embedding, as in PEFT: the looked-up rows get the same rows of A^T B^T, times the scale, added.
// A (r, V) and B (C, r) are trained; there is no dropout.
#pragma once
#include <string>

#include "engine/layers/embedding_adapter.h"
#include "engine/layers/linear.h"

namespace ft::lora {

class EmbeddingLora final : public EmbeddingAdapter {
 public:
  // `module` is PEFT's name of the embedding: base_model.model.model.embed_tokens
  EmbeddingLora(const std::string& module, std::int64_t tokens, std::int64_t width, std::int64_t rank,
                float scale, DType dtype);

  void add(Ctx&, Tensor y, Tensor ids) const override;
  void backward(Ctx&, Tensor dy, Tensor ids, std::int64_t padding) const override;
  void visit(Visitor& v) override {
    v.parameter(a);
    v.parameter(b);
  }

  std::int64_t rank() const { return a.shape[0]; }
  float scale() const { return scale_; }

  Parameter a, b;  // ....lora_embedding_A, ....lora_embedding_B

 private:
  Tensor columns(Ctx&, Tensor ids) const;

  float scale_;
};

// The embedding's adapter as used by a head that shares the table (ensure_weight_tying): y += s x B A.
class TiedLora final : public Adapter {
 public:
  explicit TiedLora(const EmbeddingLora& of) : of_(of) {}

  std::int64_t width() const override { return of_.rank(); }
  void down(Ctx&, Tensor u, Tensor x) const override;
  void up(Sum& y, Tensor u) const override;
  void up_grad(Ctx&, Tensor du, Tensor dy, Tensor u) const override;
  void down_grad(Ctx&, Sum& dx, Tensor du, Tensor x) const override;
  std::optional<DownMatrix> down_matrix(const Ctx&) const override { return {}; }
  bool owns_parameters() const override { return false; }
  void visit_down(Visitor&) override {}
  void visit_up(Visitor&) override {}

 private:
  const EmbeddingLora& of_;
};

}  // namespace ft::lora
