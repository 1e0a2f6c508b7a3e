// Functions on UTF-8 characters that tokenizers need.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

#include "engine/core/utf8.h"

namespace ft {

inline constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD, for bytes that are no character
inline constexpr std::string_view kMetaspace = "\xE2\x96\x81";    // U+2581, a space in SentencePiece's pieces

// Returns the character at text[i], which must be well-formed.
char32_t utf8_code_point(std::string_view text, std::size_t i);

// Returns true for Unicode's White_Space.
bool is_white_space(char32_t c);
// Remove white space at the beginning, or at the end.
std::string_view strip_left(std::string_view text);
std::string_view strip_right(std::string_view text);

// Replaces every `from`.
std::string replaced(std::string_view text, std::string_view from, std::string_view to);

}  // namespace ft
