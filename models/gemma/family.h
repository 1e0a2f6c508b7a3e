// Gemma 2 and the text model of Gemma 3: norms before and after each layer, capped scores and logits, windows
// in most layers.
#pragma once
#include "models/family.h"

namespace ft::gemma {

extern const Family kFamily;
GgufModel make_gguf(const std::string& config_json);
Json config_of_gguf(const GgufKeyReader&);

}  // namespace ft::gemma
