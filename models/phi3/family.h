// Phi-3 and Phi-4: one linear for queries, keys and values, another for gate and up; LongRoPE positions.
#pragma once
#include "models/family.h"

namespace ft::phi3 {

extern const Family kFamily;
GgufModel make_gguf(const std::string& config_json);
Json config_of_gguf(const GgufKeyReader&);

}  // namespace ft::phi3
