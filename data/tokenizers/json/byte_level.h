// The alphabet of byte-level vocabularies (GPT-2, https://github.com/openai/gpt-2, encoder.py): a printable
// character for every byte. Bytes 33-126, 161-172 and 174-255 stand for themselves; the others become U+0100
// and following, in order.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace ft {

// Appends the characters of the bytes of `text`.
void append_byte_level(std::string_view text, std::string& to);
// Returns the bytes of a text in that alphabet; nullopt if a character is not in it.
std::optional<std::string> from_byte_level(std::string_view text);

}  // namespace ft
