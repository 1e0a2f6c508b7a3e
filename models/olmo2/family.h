// OLMo 2: norms after attention and MLP; norms of queries and keys over all heads of a token.
#pragma once
#include "models/family.h"

namespace ft::olmo2 {

extern const Family kFamily;
GgufModel make_gguf(const std::string& config_json);
Json config_of_gguf(const GgufKeyReader&);

}  // namespace ft::olmo2
