// PEFT's adapters of parameters that hold the matrices of all experts of a layer (target_parameters), as
// transformers 5 has them: mlp.experts.gate_up_proj (E, 2 F, C), gate first, and mlp.experts.down_proj
// (E, C, F). W_e += s B_e A_e; the rows of A (E r, in) are expert by expert, and column j E + e of B
// (out, r E) is column j of B_e. Gate and up share an A.
#pragma once
#include "engine/core/error.h"
#include "engine/layers/moe.h"
#include "engine/model/model.h"
#include "lora/config.h"

namespace ft::lora {

class ExpertsLora final : public ExpertsAdapter {
 public:
  // module: PEFT's name of what wraps the parameter.
  ExpertsLora(const std::string& module, std::int64_t experts, std::int64_t in, std::int64_t out,
              std::int64_t rank, float scale, DType dtype);

  // Brings B into the order of the experts, and the gradient back.
  void begin(Ctx&, bool backward) override;
  void finish(Ctx&) override;
  void visit(Visitor&) override;
  void share(TensorRank) override;

  std::int64_t experts() const { return experts_; }
  std::int64_t rank() const { return rank_; }
  std::int64_t out() const { return b.shape[0]; }
  float scale() const { return scale_; }

  // An adapted expert's A (r, in), its gradient included, and, between begin() and finish(), rows of
  // its B.
  DownMatrix down(std::int64_t expert) const;
  Tensor up(std::int64_t expert, std::int64_t first, std::int64_t rows) const;
  Tensor up_gradient(std::int64_t expert, std::int64_t first, std::int64_t rows) const;

  Parameter a, b;

 private:
  std::int64_t first_ = 0, experts_, rank_;  // those that it adapts
  float scale_;
  Tensor up_, up_gradient_;  // (E out, r)
  Tensor down_gradient_;     // (E r, in): gate and up add to it; a micro-batch is added to a.grad at once
};

// A matrix of an expert under such an adapter: some of the rows of what the parameter holds of the expert.
struct ExpertPart {
  std::string weight;  // its name in the model's files
  ExpertsLora* all;
  std::int64_t expert, first, rows;
};

// The adapters that a layer's parameters get, by r and scale; 0: none. In the order of their matrices.
struct ExpertsRanks {
  std::int64_t gate_up = 0, down = 0;
  float gate_up_scale = 1, down_scale = 1;
};
std::vector<ExpertPart> adapt_experts(Moe&, const ExpertsRanks&, DType);
// Each of the parts' adapters once.
std::vector<ExpertsLora*> adapters_of(const std::vector<ExpertPart>&);

// The name of a linear's weight in the files; a tied head has none, and is called as if it had.
std::string weight_of(Linear&);

// A LoraConfig as PEFT makes it of one for models with experts: target_modules that name their linears
// (all-linear does) become target_parameters, of twice the rank and alpha where gate and up become one.
// Without experts it stays as it is, and where PEFT leaves names what they are (Moe::keeps_names): they mean
// other linears then. UserError where gate or up is named alone.
LoraConfig with_expert_parameters(Model&, LoraConfig, const std::string& head, const std::string& prefix,
                                  Exit exit);

}  // namespace ft::lora
