// Texts as Python has them: characters are code points, in UTF-8 here.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ft::jinja {

std::string utf8_of(char32_t c);
std::int64_t length_of(std::string_view text);  // in characters
// The characters' places, and the text's end.
std::vector<std::size_t> places_of(std::string_view text);

// Case by character; Python's few longer forms (two letters for one) are left as they are.
char32_t lower_of(char32_t c);
char32_t upper_of(char32_t c);
bool is_lower(char32_t c);
bool is_upper(char32_t c);
bool is_alpha(char32_t c);
bool is_decimal(char32_t c);
bool is_printed(char32_t c);  // repr shows it as it is

std::string lower(std::string_view text);
std::string upper(std::string_view text);
std::string capitalized(std::string_view text);

// Without characters of `set` at its ends; an empty set: white space.
std::string_view stripped(std::string_view text, std::string_view set, bool left, bool right);
std::vector<std::string_view> words_of(std::string_view text);  // between white space

}  // namespace ft::jinja
