// UTF-8, as far as messages and tokenizers need it.
#pragma once
#include <cstddef>
#include <string_view>

namespace ft {

// Bytes of the well-formed character at text[i]; 0 where there is none.
std::size_t utf8_length(std::string_view text, std::size_t i);
bool is_utf8(std::string_view text);
// The beginning of a text, at most `most` bytes, that cuts no well-formed character.
std::string_view utf8_beginning(std::string_view text, std::size_t most);

}  // namespace ft
