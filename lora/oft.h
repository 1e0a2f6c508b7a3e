// OFT, orthogonal fine-tuning (Qiu et al., "Controlling Text-to-Image Diffusion by Orthogonal Finetuning",
// 2023; "Orthogonal Finetuning Made Scalable", 2025), as PEFT computes it: blocks of n inputs are rotated,
// y = (x R) W^T + b. Each block's R is Cayley's transform of a skew-symmetric matrix Q, by Neumann's series:
// (I + Q) (I - Q)^-1 is nearly I + 2 Q + 2 Q^2 + ... + Q^d. The elements above Q's diagonal are trained.
#pragma once
#include "engine/layers/rotated.h"
#include "lora/dense_adapter.h"

namespace ft::lora {

class OftAdapter final : public FullWidthAdapter, public InputRotation {
 public:
  // block: n, which divides the inputs. shared: all blocks have the same R. terms: PEFT's number of terms of
  // the series, at least 2; 3 and 4 mean the same.
  OftAdapter(const AdapterForm&, std::int64_t block, bool shared, std::int64_t terms);

  const InputRotation* rotation() const override { return this; }
  bool needs_all_rows(const Ctx&) const override { return false; }
  void visit_down(Visitor&) override {}
  void visit_up(Visitor& v) override { v.parameter(above); }
  void cut(Cut, TensorRank, const Parts&) override;

  // InputRotation
  void rotate(Ctx&, Tensor y, Tensor x) const override;
  void rotate_grad(Ctx&, Tensor dx, Tensor dy, Tensor x) const override;

  std::vector<Parameter*> trained() override { return {&above}; }
  const Parameter* neutral_at_zero() const override { return &above; }
  void initialize(const Parameter&, LoraInit, Random, Tensor y, std::int64_t first) const override;
  void merge(Ops&, const ParameterValues&, Tensor y, bool turned) const override;

  Parameter above;  // ....oft_R.weight (blocks, n (n - 1) / 2) f32, in runs of any type

 private:
  std::int64_t matrices() const { return above.shape[0]; }
  Tensor square(Ctx&) const;  // (n, J n) f32 in c.scratch
  Tensor skew(Ctx&, float sign) const;
  // Returns P_0 = R, P_1, ..., P_d of P_j = c_j I + P_(j + 1) q, where c_j are the factors of the series.
  std::vector<Tensor> sums(Ctx&, Tensor q) const;
  void add_grad(Ctx&, Tensor dr) const;

  std::int64_t block_;
  std::vector<float> series_;
};

// Returns the size of blocks that PEFT uses for a Linear: `wanted`, or the nearest that divides its inputs.
std::int64_t oft_block(std::int64_t in, std::int64_t wanted);

}  // namespace ft::lora
