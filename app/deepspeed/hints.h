// Hints about keys that DeepSpeed does not have at that place.
#pragma once
#include <string>

#include "engine/files/json.h"

namespace ft::deepspeed {

// Returns the message about an unknown dotted key. It names the block where such a key belongs, or a similar
// key.
std::string hint_about_unknown(const std::string& name, const Json& value);

}  // namespace ft::deepspeed
