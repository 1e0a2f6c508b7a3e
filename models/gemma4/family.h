// Gemma 4's text models: heads of two widths, norms before and after each step, values with a norm. The small
// models have layers that use keys and values of earlier layers, and an input for each layer; the mixture has
// experts beside each MLP.
#pragma once
#include "models/family.h"

namespace ft::gemma4 {

extern const Family kFamily, kNested;  // the text model alone; inside a model with images

GgufModel make_gguf(const std::string& config_json);
Json config_of_gguf(const GgufKeyReader&);

}  // namespace ft::gemma4
