// T5: the original (1.0), 1.1, Flan and mT5.
#pragma once
#include "models/family.h"

namespace ft::t5 {

extern const Family kFamily;
GgufModel make_gguf(const std::string& config_json);
Json config_of_gguf(const GgufKeyReader&);

}  // namespace ft::t5
