// MiSS, matrix shard sharing (Kang and Yin, "Balancing LoRA Performance and Efficiency with Simple Shard
// Sharing", 2024; before "Bone"), as PEFT computes it: every shard of r columns of W (out, in) gets the same
// change M^T. So y += u M, where u (rows, r) adds up the columns of dropout(x) with the same remainder by r,
// and M (r, out) is trained. It begins at zero. PEFT's variants bat and mini are not computed.
#pragma once
#include "lora/linear_adapter.h"

namespace ft::lora {

class MissAdapter final : public LinearAdapter {
 public:
  explicit MissAdapter(const AdapterForm&);

  std::int64_t width() const override { return m.shape[0]; }
  void down(Ctx&, Tensor u, Tensor x) const override;
  void up(Sum& y, Tensor u) const override;
  void up_grad(Ctx&, Tensor du, Tensor dy, Tensor u) const override;
  void down_grad(Ctx&, Sum& dx, Tensor du, Tensor x) const override;
  std::optional<DownMatrix> down_matrix(const Ctx&) const override { return {}; }
  bool needs_all_rows(const Ctx& c) const override { return drops(c); }
  void visit_down(Visitor&) override {}
  void visit_up(Visitor& v) override { v.parameter(m); }
  void cut(Cut, TensorRank, const Parts&) override;

  std::vector<Parameter*> trained() override { return {&m}; }
  const Parameter* neutral_at_zero() const override { return &m; }
  void initialize(const Parameter&, LoraInit, Random, Tensor y, std::int64_t first) const override;
  void merge(Ops&, const ParameterValues&, Tensor y, bool turned) const override;

  Parameter m;  // ....miss_block

 private:
  bool drops(const Ctx& c) const { return dropout_ > 0 && c.train; }
  void drop(Ctx&, Tensor y, Tensor x) const;

  float dropout_;
  InputPart part_;
};

}  // namespace ft::lora
