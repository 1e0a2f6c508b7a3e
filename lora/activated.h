// Activated LoRA (Greenewald et al. 2025), PEFT's alora_invocation_tokens: LoRA that acts only on the active
// rows of a pass (engine/model/invocation.h). On the others u = 0, so that they compute what the base does,
// and keys and values before the invocation are the base's.
#pragma once
#include "lora/attach.h"

namespace ft::lora {

class ActivatedLora final : public LoraAdapter {
 public:
  using LoraAdapter::LoraAdapter;

  void down(Ctx&, Tensor u, Tensor x) const override;
  void up_grad(Ctx&, Tensor du, Tensor dy, Tensor u) const override;
  std::optional<DownMatrix> down_matrix(const Ctx&) const override { return {}; }
  bool needs_all_rows(const Ctx&) const override { return true; }
  void cut(Cut, TensorRank, const Parts&) override;
  void merge(Ops&, const ParameterValues&, Tensor y, bool turned) const override;
};

// Has the model activate adapters at the configuration's tokens. Throws UserError (origin.exit) if the
// adapters or the model do not allow it.
void activate(Model&, const LoraConfig&, const Attached&, const Origin&);

}  // namespace ft::lora
