// Writes texts as JSON strings.
#pragma once
#include <string>
#include <string_view>

namespace ft {

// Appends `text`, which is UTF-8, in quotes.
void quote_json(std::string_view text, std::string& to);

}  // namespace ft
