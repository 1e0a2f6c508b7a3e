// HiRA (Huang et al., "HiRA: Parameter-Efficient Hadamard High-Rank Adaptation for Large Language Models",
// 2025), as PEFT computes it: the change of W (out, in) is V = W * (B A), element by element, which has a
// high rank. A (r, in) and B (out, r) are trained; there is no scale.
#pragma once
#include "lora/dense_adapter.h"

namespace ft::lora {

class HiraAdapter final : public DenseAdapter {
 public:
  explicit HiraAdapter(const AdapterForm&);

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
