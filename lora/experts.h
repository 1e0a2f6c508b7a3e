// PEFT's adapters of parameters that hold the matrices of all experts of a layer (target_parameters), with
// the names of transformers 5: mlp.experts.gate_up_proj (E, 2 F, C), gate first, and mlp.experts.down_proj
// (E, C, F). gpt-oss stores their transposes, and gate and up alternate. W_e += s B_e A_e. The rows of A (E
// r, in) are ordered by expert; column j E + e of B (out, r E) is column j of B_e. Gate and up share an A.
#pragma once
#include "engine/core/error.h"
#include "engine/layers/moe.h"
#include "engine/model/model.h"
#include "lora/config.h"

namespace ft::lora {

class ExpertsLora final : public ExpertsAdapter {
 public:
  // module: PEFT's name of the wrapper of the parameter.
  ExpertsLora(const std::string& module, std::int64_t experts, std::int64_t in, std::int64_t out,
              std::int64_t rank, float scale, DType dtype);

  // begin() reorders B by expert; finish() reorders the gradient back.
  void begin(Ctx&, bool backward) override;
  void finish(Ctx&) override;
  void visit(Visitor&) override;
  void share(TensorRank) override;
  void cut(Cut, TensorRank) override;

  std::int64_t experts() const { return experts_; }
  std::int64_t rank() const { return rank_; }
  std::int64_t out() const { return b.shape[0]; }
  float scale() const { return scale_; }

  // down(): an adapted expert's A (r, in) with its gradient. up() and up_gradient(): rows of its B; valid
  // between begin() and finish().
  DownMatrix down(std::int64_t expert) const;
  Tensor up(std::int64_t expert, std::int64_t first, std::int64_t rows) const;
  Tensor up_gradient(std::int64_t expert, std::int64_t first, std::int64_t rows) const;

  Parameter a, b;

 private:
  std::int64_t first_ = 0, experts_, rank_;  // the first adapted expert, and their number
  float scale_;
  Tensor up_, up_gradient_;  // (E out, r)
  Tensor down_gradient_;     // (E r, in): gate and up add to it; finish() adds a micro-batch's sum to a.grad
};

// An expert's matrix with such an adapter: some of the expert's rows in the parameter.
struct ExpertPart {
  std::string weight;  // its name in the model's files
  ExpertsLora* all;
  std::int64_t expert, first, rows;
  bool stacked;  // the weight is the stack of all experts' matrices, stored (E, in, out)
};

// Ranks and scales of the adapters of a layer's parameters; rank 0: no adapter.
struct ExpertsRanks {
  std::int64_t gate_up = 0, down = 0;
  float gate_up_scale = 1, down_scale = 1;
};
std::vector<ExpertPart> adapt_experts(Moe&, const ExpertsRanks&, DType);
// Returns the adapters of these parts, each once.
std::vector<ExpertsLora*> adapters_of(const std::vector<ExpertPart>&);

// Returns the name of a linear's weight in the files. A tied head has no weight and gets the name that it
// would have.
std::string weight_of(Linear&);

// Converts a LoraConfig as PEFT does for models with experts: target_modules that name experts' Linears (as
// all-linear does) become target_parameters. gate_up_proj, which joins gate and up, gets twice the rank and
// alpha. Models without experts, and kinds other than LoRA, keep the config. So do models whose names PEFT
// keeps (Moe::keeps_names), where the names mean other Linears. Throws UserError (`exit`) if only one of gate
// and up is named.
LoraConfig with_expert_parameters(Model&, LoraConfig, const std::string& head, const std::string& prefix,
                                  Exit exit);

}  // namespace ft::lora
