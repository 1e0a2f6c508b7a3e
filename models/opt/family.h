// OPT: learned positions, biases, LayerNorm before or after each layer.
#pragma once
#include "models/family.h"

namespace ft::opt {

extern const Family kFamily;
GgufModel make_gguf(const std::string& config_json);

}  // namespace ft::opt
