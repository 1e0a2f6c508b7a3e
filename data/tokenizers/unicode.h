// Unicode's algorithms that tokenizers need, by utf8proc. Texts are UTF-8.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace ft {

enum class NormalForm { nfc, nfd, nfkc, nfkd };
std::string normal_form(std::string_view text, NormalForm form);

// Returns the bytes of the extended grapheme cluster at text[at], which must be the beginning of one.
std::size_t grapheme_length(std::string_view text, std::size_t at);

// Returns true for characters of words: Alphabetic, marks, decimal digits, connectors such as _, joiners.
bool is_word_character(char32_t c);

// char_kind: the general category, such as Ll or Nd. lower_case, upper_case: the other case if it is one
// character.
enum class CharKind { lower, upper, title, other_letter, decimal, other_number, space, control, other };
CharKind char_kind(char32_t c);
char32_t lower_case(char32_t c);
char32_t upper_case(char32_t c);

}  // namespace ft
