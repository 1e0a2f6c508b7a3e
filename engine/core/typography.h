// Typographic quotes, dashes and spaces, which web pages and word processors put in place of the plain ones
// that JSON and command lines need.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ft {

struct Typographic {
  std::size_t at = 0, bytes = 0;  // place in the text
  char plain = 0;                 // the plain character: " ' - or a space
  const char* code = "";          // U+201C

  // "quote", "dash" or "space".
  const char* kind() const { return plain == '-' ? "dash" : plain == ' ' ? "space" : "quote"; }
};

// Returns the first typographic character from `from` on.
std::optional<Typographic> find_typography(std::string_view text, std::size_t from = 0);

// Replaces typographic characters in the words of a command line. Quotes in JSON become plain; other quotes
// are removed, as a shell does, and the words between an opening and a closing quote become one word. A dash
// that begins a word becomes - or --, depending on the rest of the word.
std::vector<std::string> plain_words(const std::vector<std::string>& words);

// Joins words into a shell command line, quoting where needed.
std::string shell_line(const std::vector<std::string>& words);

}  // namespace ft
