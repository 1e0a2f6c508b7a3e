// HiRA (Huang et al., "HiRA: Parameter-Efficient Hadamard High-Rank Adaptation for Large Language Models",
// 2025), as PEFT computes it: the change of W (out, in) is V = W * (B A), element by element, which has a
// high rank. A (r, in) and B (out, r) are trained; there is no scale.
#pragma once
#include "engine/layers/dense_change.h"
#include "lora/linear_adapter.h"

namespace ft::lora {

class HiraAdapter final : public LinearAdapter, public DenseChange {
 public:
  explicit HiraAdapter(const AdapterForm&);

  // Adapter: there is no narrow part.
  std::int64_t width() const override { return 0; }
  void down(Ctx&, Tensor, Tensor) const override {}
  void up(Sum&, Tensor) const override {}
  void up_grad(Ctx&, Tensor, Tensor, Tensor) const override {}
  void down_grad(Ctx&, Sum&, Tensor, Tensor) const override {}
  std::optional<DownMatrix> down_matrix(const Ctx&) const override { return {}; }
  bool needs_all_rows(const Ctx& c) const override { return drops(c); }
  const DenseChange* change() const override { return this; }
  void visit_down(Visitor& v) override { v.parameter(a); }
  void visit_up(Visitor& v) override { v.parameter(b); }
  void cut(Cut, TensorRank, const Parts&) override;

  // DenseChange
  Tensor matrix(Ctx&, const Weight&) const override;
  bool trains() const override { return static_cast<bool>(a.grad); }
  void add_grad(Ctx&, const Weight&, Tensor dv) const override;
  bool drops(const Ctx& c) const override { return dropout_ > 0 && c.train; }
  void drop(Ctx&, Tensor y, Tensor x) const override;

  std::vector<Parameter*> trained() override { return {&a, &b}; }
  const Parameter* neutral_at_zero() const override { return &b; }
  void initialize(const Parameter&, LoraInit, Random, Tensor y, std::int64_t first) const override;
  void merge(Ops&, const ParameterValues&, Tensor y, bool turned) const override;

  Parameter a, b;  // ....hira_A, ....hira_B

 private:
  float dropout_;
  InputPart part_;
};

}  // namespace ft::lora
