// Hints about keys that DeepSpeed does not have where they stand.
#pragma once
#include <string>

#include "engine/files/json.h"

namespace ft::deepspeed {

// The message about an unknown dotted key: the block where a key of that name belongs, or the key that was
// likely meant.
std::string hint_about_unknown(const std::string& name, const Json& value);

}  // namespace ft::deepspeed
