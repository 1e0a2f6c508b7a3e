// The prompt that a row does not name: what its two answers begin with alike, as TRL finds it.
#pragma once
#include <string>
#include <vector>

#include "engine/io/json.h"

namespace ft {

// Takes it from both: characters, of which a space at the end stays with the answers; or whole messages. Of
// two of which one begins with the other, the last that they share stays with them.
std::string take_shared_prompt(std::string& chosen, std::string& rejected);
std::vector<Json> take_shared_prompt(std::vector<Json>& chosen, std::vector<Json>& rejected);

}  // namespace ft
