// Unicode's algorithms that tokenizers need, by utf8proc. Texts are UTF-8.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace ft {

enum class NormalForm { nfc, nfd, nfkc, nfkd };
std::string normal_form(std::string_view text, NormalForm form);

// Bytes of the extended grapheme cluster that begins at text[at], which must be the beginning of one.
std::size_t grapheme_length(std::string_view text, std::size_t at);

// A character of words: Alphabetic, a mark, a decimal digit, a connector such as _, or a joiner.
bool is_word_character(char32_t c);

// A character by its general category, such as Ll or Nd, and in its other case, where that is one character.
enum class CharKind { lower, upper, title, other_letter, decimal, other_number, space, control, other };
CharKind char_kind(char32_t c);
char32_t lower_case(char32_t c);
char32_t upper_case(char32_t c);

}  // namespace ft
