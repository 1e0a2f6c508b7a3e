// DeepSeek V2 and V3, GLM-4.7-Flash and GLM-4.5: experts beside a shared one, in all layers but the first;
// all but GLM-4.5 have low-rank queries, keys and values.
#pragma once
#include "models/family.h"

namespace ft::deepseek {

extern const Family kFamily;

GgufModel make_gguf(const std::string& config_json);
Json config_of_gguf(const GgufKeyReader&);

}  // namespace ft::deepseek
