// Qwen3-Next and Qwen3.5: three of four layers have a gated delta net in place of attention, and attention
// has a gate. Norms count their weights from 1.
#pragma once
#include "models/family.h"

namespace ft::qwen3_next {

extern const Family kFamily;

GgufModel make_gguf(const std::string& config_json);
Json config_of_gguf(const GgufKeyReader&);

}  // namespace ft::qwen3_next
