// GPT-2: learned positions; weights are stored as (inputs, outputs).
#pragma once
#include "models/family.h"

namespace ft::gpt2 {

extern const Family kFamily;
GgufModel make_gguf(const std::string& config_json);
Json config_of_gguf(const GgufKeyReader&);

}  // namespace ft::gpt2
