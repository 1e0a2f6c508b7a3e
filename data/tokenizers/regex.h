// Regular expressions of tokenizer.json, by PCRE2. Hugging Face's library reads them with Oniguruma; what the
// two understand differently is written in PCRE2's words first, and refused where there are none.
#pragma once
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace ft {

// White space and letters of words as Unicode has them, for patterns of our own: PCRE2's \s has U+180E too,
// and its \w has marks only since 10.43.
inline constexpr std::string_view kSpacePattern = "\\p{White_Space}";
inline constexpr std::string_view kWordPattern = "[\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{200C}\\x{200D}]";

class Regex {
 public:
  struct Match {
    std::size_t begin = 0, end = 0;  // bytes
  };

  // Compiles a pattern in PCRE2's syntax; an error in it is a bug in ft.
  explicit Regex(std::string_view pattern);
  // Compiles a pattern in Oniguruma's syntax. Throws a UserError (exit 3) that begins with `where` for syntax
  // that it does not know.
  static Regex oniguruma(std::string_view pattern, const std::string& where);
  // Matches a text literally.
  static Regex literal(std::string_view text);

  // What `find` writes to; one for each thread.
  class Finder {
   public:
    explicit Finder(const Regex& regex);
    // The first match at or after `from`; false when there is none. `text` must be UTF-8.
    bool find(std::string_view text, std::size_t from, Match& match);

   private:
    const Regex& regex_;
    std::shared_ptr<void> state_;
  };

 private:
  Regex(std::string_view pattern, bool literal, const std::string& where);

  std::shared_ptr<const void> code_;  // shared by copies; it does not change
};

// All matches in order. As in Oniguruma's library an empty match directly behind another match is none.
std::vector<Regex::Match> all_matches(std::string_view text, const Regex& regex);

// Oniguruma's pattern in PCRE2's syntax.
std::string from_oniguruma(std::string_view pattern, const std::string& where);

}  // namespace ft
