// The experts of a decoder with LLaMA's names.
#pragma once
#include "models/decoder/parts.h"
#include "models/moe/config.h"

namespace ft::moe {

// Replaces the MLPs of the layers that have experts by mlp.gate, mlp.experts.E.{gate,up,down}_proj and
// mlp.shared_expert (mlp.shared_experts if it has no gate), or Mixtral's names for them.
void add_experts(CausalLm::Parts&, const Config&, DType);
// Returns the model, after add_experts().
MadeModel make_model(CausalLm::Parts, const Config&);

}  // namespace ft::moe
