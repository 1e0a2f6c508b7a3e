// Texts as in Python: characters are code points, stored in UTF-8.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ft::jinja {

std::string utf8_of(char32_t c);
std::int64_t length_of(std::string_view text);  // in characters
// Returns the byte offset of each character, and the text's length.
std::vector<std::size_t> places_of(std::string_view text);

// Map one character; Python's few mappings to several letters are not done.
char32_t lower_of(char32_t c);
char32_t upper_of(char32_t c);
bool is_lower(char32_t c);
bool is_upper(char32_t c);
bool is_alpha(char32_t c);
bool is_decimal(char32_t c);
bool is_printed(char32_t c);  // repr shows it unescaped

std::string lower(std::string_view text);
std::string upper(std::string_view text);
std::string capitalized(std::string_view text);

// Removes characters of `set` from the ends; an empty set: white space.
std::string_view stripped(std::string_view text, std::string_view set, bool left, bool right);
std::vector<std::string_view> words_of(std::string_view text);  // separated by white space

}  // namespace ft::jinja
