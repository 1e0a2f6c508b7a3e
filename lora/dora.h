// Weight-decomposed LoRA (Liu et al. 2024), as PEFT computes it. In addition to A and B, a magnitude m is
// trained for each row of V = W + s B A. The Linear's product with V is scaled by m / norms of V's rows. The
// norms are recomputed in each pass and are constants in the backward pass. See engine/layers/rescaled.h.
//
// The norms need no pass over W: norm^2 = |w|^2 + b . (2 s A w + s^2 A A^T b) for each row w of W and b of B.
// A w is one narrow product, in whatever type W is stored, and |w|^2 does not change.
#pragma once
#include "engine/core/error.h"
#include "engine/layers/rescaled.h"
#include "lora/adapter.h"

namespace ft::lora {

class DoraAdapter final : public LoraAdapter, public Rescaling {
 public:
  DoraAdapter(const std::string& module, std::int64_t in, std::int64_t out, std::int64_t rank, float scale,
              float dropout, DType dtype);

  const Rescaling* rescaling() const override { return this; }
  Factors factors(Ctx&, const Weight&) const override;
  Tensor grad() const override { return magnitude.grad; }
  bool drops(const Ctx& c) const override { return LoraAdapter::drops(c); }
  void drop(Ctx& c, Tensor y, Tensor x) const override { LoraAdapter::drop(c, y, x); }
  void visit_up(Visitor& v) override;
  void cut(Cut, TensorRank, const Parts&) override {
    throw UserError(Exit::config,
                    "lora.use_dora: not with distributed.tensor_parallel_size yet; leave one of the two out");
  }
  std::vector<Parameter*> trained() override { return {&a, &b, &magnitude}; }
  const Parameter* neutral_at_zero() const override { return nullptr; }  // magnitudes change weights too
  void merge(Ops&, const ParameterValues&, Tensor y, bool turned) const override;

  Parameter magnitude;  // ....lora_magnitude_vector: (out) f32 in runs of any type
  Parameter squares;    // sums of squares of W's rows, (out) f32; frozen, and in no file
};

}  // namespace ft::lora
