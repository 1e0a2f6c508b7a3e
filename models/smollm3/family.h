// SmolLM3: LLaMA without rotary positions in some layers.
#pragma once
#include "models/family.h"

namespace ft::smollm3 {

extern const Family kFamily;
GgufModel make_gguf(const std::string& config_json);
Json config_of_gguf(const GgufKeyReader&);

}  // namespace ft::smollm3
