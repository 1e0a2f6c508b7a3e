// GPT-NeoX and Pythia: attention and MLP in parallel; positions rotate a part of each head.
#pragma once
#include "models/family.h"

namespace ft::gpt_neox {

extern const Family kFamily;
GgufModel make_gguf(const std::string& config_json);
Json config_of_gguf(const GgufKeyReader&);

}  // namespace ft::gpt_neox
