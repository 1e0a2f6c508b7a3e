// LLaMA-like decoders: LLaMA, Mistral, Qwen2, Qwen3.
#pragma once
#include "models/family.h"

namespace ft::llama {

extern const Family kFamily;
GgufModel make_gguf(const std::string& config_json);
Json config_of_gguf(const GgufKeyReader&);

}  // namespace ft::llama
