// SmolLM3: LLaMA with layers that do not rotate.
#pragma once
#include "models/family.h"

namespace ft::smollm3 {

extern const Family kFamily;
GgufModel make_gguf(const std::string& config_json);
Json config_of_gguf(const GgufKeyReader&);

}  // namespace ft::smollm3
