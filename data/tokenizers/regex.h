// Regular expressions of tokenizer.json, by PCRE2. Hugging Face's library reads them with Oniguruma, so
// patterns are first translated to PCRE2's syntax, and refused if this is not possible.
#pragma once
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace ft {

// White space and word characters as Unicode defines them, for ft's patterns: PCRE2's \s also has U+180E, and
// its \w has marks only since 10.43.
inline constexpr std::string_view kSpacePattern = "\\p{White_Space}";
inline constexpr std::string_view kWordPattern = "[\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{200C}\\x{200D}]";

class Regex {
 public:
  struct Match {
    std::size_t begin = 0, end = 0;  // in bytes
  };

  // Compiles a pattern in PCRE2's syntax; an error in it is a bug in ft.
  explicit Regex(std::string_view pattern);
  // Compiles a pattern in Oniguruma's syntax. Throws UserError (input), which begins with `where`, for
  // unknown syntax.
  static Regex oniguruma(std::string_view pattern, const std::string& where);
  // Makes an expression that matches a text literally.
  static Regex literal(std::string_view text);

  // State of a search; each thread needs one.
  class Finder {
   public:
    explicit Finder(const Regex& regex);
    // Finds the first match at or after `from`; returns false if there is none. `text` must be UTF-8.
    bool find(std::string_view text, std::size_t from, Match& match);

   private:
    const Regex& regex_;
    std::shared_ptr<void> state_;
  };

 private:
  Regex(std::string_view pattern, bool literal, const std::string& where);

  std::shared_ptr<const void> code_;  // shared by copies; it does not change
};

// Returns all matches in order. As in Oniguruma, an empty match directly after another match is skipped.
std::vector<Regex::Match> all_matches(std::string_view text, const Regex& regex);

// Translates Oniguruma's pattern to PCRE2's syntax.
std::string from_oniguruma(std::string_view pattern, const std::string& where);

}  // namespace ft
