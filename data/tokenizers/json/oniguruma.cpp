// Translates Oniguruma's syntax (Ruby's variant) to PCRE2's. Syntax with the same meaning in both is copied;
// \s, \d, \w, \b, \u and the ends of lines are written out; the rest is refused, so that no pattern silently
// changes its meaning.
#include <algorithm>

#include "data/tokenizers/regex.h"
#include "engine/core/error.h"

namespace ft {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// Content of \w in a set: alphabetic characters (circled and squared letters too), marks, digits, connectors.
constexpr std::string_view kWord =
    "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{24B6}-\\x{24E9}\\x{1F130}-\\x{1F149}\\x{1F150}-\\x{1F169}\\x{1F170}"
    "-\\x{1F189}";
constexpr std::string_view kWordOutside =
    "\\xB2\\xB3\\xB9\\xBC-\\xBE";  // additional outside of sets: Latin-1's ² to ¾

class Translator {
 public:
  Translator(std::string_view pattern, const std::string& where) : in_(pattern), where_(where) {}

  std::string run() {
    while (at_ < in_.size()) {
      const char c = in_[at_];
      if (c == '\\')
        escape(false);
      else if (c == '[')
        set();
      else if (c == '(')
        group();
      else if (c == '{')
        interval();
      else if (c == '^' || c == '$')
        put(str("(?m:", c, ")"), 1);  // of a line, as always in Ruby
      else
        copy(1);
    }
    return std::move(out_);
  }

 private:
  [[noreturn]] void refuse(std::size_t size) const {
    throw UserError(Exit::input,
                    str(where_, ": the pattern ", printable(in_), " cannot be used: ft does not know ",
                        printable(in_.substr(at_, size)), " at byte ", at_));
  }
  bool starts(std::string_view text) const { return in_.substr(at_).starts_with(text); }
  char peek(std::size_t ahead) const { return at_ + ahead < in_.size() ? in_[at_ + ahead] : '\0'; }
  void copy(std::size_t size) {
    out_ += in_.substr(at_, size);
    at_ += size;
  }
  void put(std::string_view text, std::size_t instead_of) {
    out_ += text;
    at_ += instead_of;
  }

  void escape(bool in_set) {
    const std::string in = str("[", kWord, kWordOutside, "]"), out = str("[^", kWord, kWordOutside, "]");
    const char c = peek(1);
    if (in_set && (c == 'W' || c == 'b' || c == 'B')) refuse(2);
    switch (c) {
      case 'w':
        return put(in_set ? kWord : in, 2);
      case 'W':
        return put(out, 2);
      case 'b':
        return put(str("(?:(?<=", in, ")(?!", in, ")|(?<!", in, ")(?=", in, "))"), 2);
      case 'B':
        return put(str("(?:(?<=", in, ")(?=", in, ")|(?<!", in, ")(?!", in, "))"), 2);
      case 's':
        return put(kSpacePattern, 2);
      case 'S':
        return put("\\P{White_Space}", 2);
      case 'd':
        return put("\\p{Nd}", 2);
      case 'D':
        return put("\\P{Nd}", 2);
      case 'p':
      case 'P':
        return property();
      case 'u':
      case 'x':
        return code_point();
      case 'r':
      case 'n':
      case 't':
      case 'f':
      case 'e':
      case 'a':
        return copy(2);
      case 'v':
        return put("\\x0B", 2);  // in PCRE2 \v is a class
      default:
        if (c == '\0' || is_letter(c) || is_digit(c)) refuse(2);
        return copy(2);
    }
  }

  void property() {
    const std::size_t end = in_.find('}', at_);
    if (peek(2) != '{' || end == std::string_view::npos) refuse(3);
    copy(end + 1 - at_);
  }

  void code_point() {
    std::size_t size = 2;
    if (in_[at_ + 1] == 'x' && peek(2) == '{') {
      for (++size; is_hex(peek(size));) ++size;
      if (peek(size) != '}' || size == 3) refuse(size);
      return copy(size + 1);
    }
    const std::size_t digits = in_[at_ + 1] == 'u' ? 4 : 2;
    while (size < 2 + digits && is_hex(peek(size))) ++size;
    // \x80 and above are bytes in Oniguruma and characters in PCRE2.
    if (size != 2 + digits || (digits == 2 && in_[at_ + 2] > '7')) refuse(size);
    put(str("\\x{", in_.substr(at_ + 2, digits), "}"), size);
  }

  void set() {
    copy(1);
    if (peek(0) == '^') copy(1);
    if (peek(0) == ']') refuse(1);
    for (; at_ < in_.size() && in_[at_] != ']';) {
      if (in_[at_] == '[' || starts("&&")) refuse(2);  // nested sets
      if (in_[at_] == '\\')
        escape(true);
      else
        copy(1);
    }
    if (at_ == in_.size()) refuse(1);
    copy(1);
  }

  void group() {
    if (peek(1) != '?') {
      if (peek(1) == '*') refuse(2);  // PCRE2's verbs
      return copy(1);
    }
    for (const std::string_view known : {"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i:", "(?-i:"})
      if (starts(known)) return copy(known.size());
    if (at_ == 0 && starts("(?i)")) return copy(4);  // elsewhere the two differ in its scope
    refuse(4);
  }

  void interval() {
    std::size_t size = 1;
    while (is_digit(peek(size))) ++size;
    if (size == 1) refuse(2);
    if (peek(size) == ',')
      for (++size; is_digit(peek(size));) ++size;
    // {2}+ is possessive in PCRE2, but a repeated repetition in Oniguruma.
    if (peek(size) != '}' || peek(size + 1) == '+') refuse(size + 2);
    copy(size + 1);
  }

  std::string_view in_;
  const std::string& where_;
  std::size_t at_ = 0;
  std::string out_;
};

}  // namespace

std::string from_oniguruma(std::string_view pattern, const std::string& where) {
  return Translator(pattern, where).run();
}

}  // namespace ft
