// GGUF's names and keys for the experts of Qwen's layers.
#pragma once
#include <array>

#include "models/gguf/gguf.h"
#include "models/gguf/gguf_key_reader.h"
#include "models/moe/config.h"

namespace ft::moe {

inline constexpr std::array kGgufOfLayers = {GgufName{"mlp.gate", "ffn_gate_inp"},
                                             GgufName{"mlp.experts.%.gate_proj", "ffn_gate_exps"},
                                             GgufName{"mlp.experts.%.up_proj", "ffn_up_exps"},
                                             GgufName{"mlp.experts.%.down_proj", "ffn_down_exps"},
                                             GgufName{"mlp.shared_expert_gate", "ffn_gate_inp_shexp"},
                                             GgufName{"mlp.shared_expert.gate_proj", "ffn_gate_shexp"},
                                             GgufName{"mlp.shared_expert.up_proj", "ffn_up_shexp"},
                                             GgufName{"mlp.shared_expert.down_proj", "ffn_down_shexp"}};

void add_gguf_experts(GgufKeys&, const Config&, const std::string& architecture);
// Throws UserError (input) if a layer has no experts: GGUF has them in every layer.
void require_experts_everywhere(const Config&, const std::string& config_json);

}  // namespace ft::moe
