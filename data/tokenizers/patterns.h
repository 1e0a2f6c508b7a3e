// Reads patterns in tokenizer.json's form.
#pragma once
#include <string>
#include <string_view>

#include "data/tokenizers/regex.h"
#include "engine/files/json.h"

namespace ft {

// Reads {"String": text} or {"Regex": pattern}, under `key`.
Regex read_pattern(const JsonObject& object, std::string_view key);
// Replaces every match.
std::string replaced(std::string_view text, const Regex& pattern, std::string_view by);

}  // namespace ft
