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

}  // namespace ft
