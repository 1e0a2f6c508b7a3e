// The parts of UTF-8 that messages and tokenizers need.
#pragma once
#include <cstddef>
#include <string_view>

namespace ft {

// Returns the bytes of the well-formed character at text[i], or 0 if there is none.
std::size_t utf8_length(std::string_view text, std::size_t i);
bool is_utf8(std::string_view text);
// Returns the longest beginning of a text that has at most `most` bytes and splits no well-formed character.
std::string_view utf8_beginning(std::string_view text, std::size_t most);

}  // namespace ft
