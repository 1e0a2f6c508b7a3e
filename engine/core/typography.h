// Quotes, dashes and spaces of typography, which web pages and word processors put where JSON and command
// lines need plain ones.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ft {

struct Typographic {
  std::size_t at = 0, bytes = 0;  // its place in the text
  char plain = 0;                 // what was meant: " ' - or a space
  const char* code = "";          // U+201C

  // "quote", "dash" or "space".
  const char* kind() const { return plain == '-' ? "dash" : plain == ' ' ? "space" : "quote"; }
};

// The first one from `from` on.
std::optional<Typographic> find_typography(std::string_view text, std::size_t from = 0);

// The words of a command line as they were meant. Quotes in JSON become plain; others are taken away, as a
// shell does, and words between an opening and a closing one become one word. A dash that begins a word
// becomes - or --, as the rest of the word asks for.
std::vector<std::string> plain_words(const std::vector<std::string>& words);

// The words as one would type them into a shell, quoted where they must be.
std::string shell_line(const std::vector<std::string>& words);

}  // namespace ft
