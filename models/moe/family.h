// Decoders with experts in place of some feed-forward layers: Mixtral, Qwen2-MoE, Qwen3-MoE, OLMoE.
#pragma once
#include "models/family.h"

namespace ft::moe {

extern const Family kFamily;

GgufModel make_gguf(const std::string& config_json);
Json config_of_gguf(const GgufKeyReader&);

}  // namespace ft::moe
