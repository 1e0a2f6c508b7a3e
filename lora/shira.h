// SHiRA (Bhardwaj et al., "Sparse High Rank Adapters", 2024), as PEFT computes it: r (in + out) elements of a
// matrix V (out, in) that is added to W are trained, and the others are zero. Their places are drawn once and
// stay; the adapter's files hold them.
#pragma once
#include "lora/dense_adapter.h"

namespace ft::lora {

class ShiraAdapter final : public DenseAdapter {
 public:
  // seed: of the places; empty: of torch's generators that are given none.
  ShiraAdapter(const AdapterForm&, std::optional<std::int64_t> seed);

  void visit_down(Visitor&) override {}
  void visit_up(Visitor&) override;
  void cut(Cut, TensorRank, const Parts&) override;

  // DenseChange
  Tensor matrix(Ctx&, const Weight&) const override;
  bool trains() const override { return static_cast<bool>(values.grad); }
  void add_grad(Ctx&, const Weight&, Tensor dv) const override;
  bool drops(const Ctx&) const override { return false; }
  void drop(Ctx&, Tensor, Tensor) const override;

  std::vector<Parameter*> trained() override { return {&values}; }
  std::vector<Parameter*> fixed() override { return {&places}; }
  std::string fault_of(const Tensor& fixed) const override;
  const Parameter* neutral_at_zero() const override { return &values; }
  void initialize(const Parameter&, LoraInit, Random, Tensor y, std::int64_t first) const override;
  void merge(Ops&, const ParameterValues&, Tensor y, bool turned) const override;

  // Draws the values of `places`, in the order of rows. Below 2^32 / 20 elements of W they are PEFT's.
  std::vector<std::int32_t> draw() const;

  Parameter values;  // ....shira_weight (count)
  Parameter places;  // ....shira_indices (2, count): rows and columns of the values; frozen

 private:
  std::int64_t count() const { return values.shape[0]; }
  std::optional<std::int64_t> seed_;
};

}  // namespace ft::lora
