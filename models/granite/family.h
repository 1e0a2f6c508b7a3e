// Granite: LLaMA with four multipliers.
#pragma once
#include "models/family.h"

namespace ft::granite {

extern const Family kFamily;
GgufModel make_gguf(const std::string& config_json);
Json config_of_gguf(const GgufKeyReader&);

}  // namespace ft::granite
