// gpt-oss: a mixture of experts whose attention has sinks and, in every other layer, a window. The experts of
// a layer are in two stacks, in MXFP4 in OpenAI's files.
#pragma once
#include "models/family.h"

namespace ft::gpt_oss {

extern const Family kFamily;

GgufModel make_gguf(const std::string& config_json);
Json config_of_gguf(const GgufKeyReader&);

}  // namespace ft::gpt_oss
