#include "data/chat/jinja/lexer.h"

#include <algorithm>
#include <stdexcept>

#include "data/chat/jinja/machine.h"
#include "data/files/utf8.h"
#include "engine/core/error.h"

namespace ft::jinja {
namespace {

using Kind = Token::Kind;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}

std::string with_line_feeds(std::string_view source) {
  std::string out;
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      out += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      out += source[i];
    }
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string source) : source_(std::move(source)) {}

  std::vector<Token> read() {
    while (at_ < source_.size()) outside();
    add(Kind::end, "");
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { throw Error(line_, what); }
  std::string_view rest() const { return std::string_view(source_).substr(at_); }
  void add(Kind kind, std::string text) { tokens_.push_back({kind, line_, std::move(text)}); }
  void skip(std::size_t count) {
    const std::string_view gone = rest().substr(0, count);
    line_ += static_cast<int>(std::count(gone.begin(), gone.end(), '\n'));
    if (!gone.empty()) starts_line_ = gone.back() == '\n';
    at_ += gone.size();
  }
  void skip_space() { skip(rest().size() - strip_left(rest()).size()); }
  bool skip_if(std::string_view word) {
    if (!rest().starts_with(word)) return false;
    skip(word.size());
    return true;
  }

  // Adds the text before a tag, without the white space that the sign at the tag's beginning removes.
  void data(std::string_view text, char sign, bool print) {
    std::string_view kept = text;
    const std::size_t last = text.rfind('\n') + 1;  // where the last line begins
    if (sign == '-')
      kept = strip_right(text);
    else if (sign != '+' && !print && (last > 0 || starts_line_) && strip_left(text.substr(last)).empty())
      kept = text.substr(0, last);
    if (!kept.empty()) add(Kind::data, std::string(kept));
    skip(text.size());
  }

  void outside() {
    std::size_t end = rest().find('{');
    const auto opens = [&](std::size_t i) {
      const char next = i + 1 < rest().size() ? rest()[i + 1] : ' ';
      return next == '{' || next == '%' || next == '#';
    };
    while (end != std::string_view::npos && !opens(end)) end = rest().find('{', end + 1);
    if (end == std::string_view::npos) {
      add(Kind::data, std::string(rest()));
      return skip(rest().size());
    }
    const char kind = rest()[end + 1];
    const char behind = end + 2 < rest().size() ? rest()[end + 2] : ' ';
    const char sign = behind == '-' || behind == '+' ? behind : ' ';
    data(rest().substr(0, end), sign, kind == '{');
    const std::size_t opening = sign == ' ' ? 2 : 3;
    if (kind == '#') return comment(opening);
    if (kind == '%' && raw(opening)) return;
    add(kind == '{' ? Kind::print : Kind::block, "");
    skip(opening);
    kind == '{' ? inside("}}", Kind::end_print) : inside("%}", Kind::end_block);
  }

  // Skips the end of a tag, and the white space that its sign removes.
  bool closes(std::string_view end) {
    const bool block = end != "}}";
    if (rest().starts_with("-") && rest().substr(1).starts_with(end)) {
      skip(1 + end.size());
      skip_space();
      return true;
    }
    if (block && rest().starts_with("+") && rest().substr(1).starts_with(end)) {
      skip(1 + end.size());
      return true;
    }
    if (!skip_if(end)) return false;
    if (block) skip_if("\n");
    return true;
  }

  void comment(std::size_t opening) {
    std::size_t end = rest().find("#}", opening);
    if (end == std::string_view::npos) fail("a comment {# is not closed");
    if (end > opening && (rest()[end - 1] == '-' || rest()[end - 1] == '+')) --end;
    skip(end);
    closes("#}");
  }

  // {% raw %}: everything up to {% endraw %} is text.
  bool raw(std::size_t opening) {
    const auto word = [](std::string_view text, std::string_view name) {
      text = strip_left(text);
      return text.starts_with(name) ? strip_left(text.substr(name.size())) : std::string_view();
    };
    const std::string_view behind = word(rest().substr(opening), "raw");
    if (!behind.starts_with("%}") && !behind.starts_with("-%}")) return false;
    const bool strips = behind[0] == '-';
    const int line = line_;
    skip(rest().size() - behind.size() + (strips ? 3 : 2));
    if (strips) skip_space();
    for (std::size_t i = rest().find("{%"); i != std::string_view::npos; i = rest().find("{%", i + 1)) {
      std::string_view tag = rest().substr(i + 2);
      const char sign = !tag.empty() && (tag[0] == '-' || tag[0] == '+') ? tag[0] : ' ';
      const std::string_view end = word(tag.substr(sign == ' ' ? 0 : 1), "endraw");
      if (!end.starts_with("%}") && !end.starts_with("-%}") && !end.starts_with("+%}")) continue;
      data(rest().substr(0, i), sign, false);
      skip(rest().size() - end.size());
      return closes("%}");
    }
    line_ = line;
    fail("a {% raw %} is not closed");
  }

  void inside(std::string_view end, Kind kind) {
    const int line = line_;
    std::string open;  // brackets
    for (skip_space(); at_ < source_.size(); skip_space()) {
      const int here = line_;
      if (open.empty() && closes(end)) {
        tokens_.push_back({kind, here, ""});
        return;
      }
      const char c = rest()[0];
      if (is_digit(c))
        number();
      else if (is_letter(c))
        name();
      else if (c == '\'' || c == '"')
        quoted(c);
      else
        sign(open);
    }
    throw Error(line, str("a tag ", kind == Kind::end_print ? "{{" : "{%", " is not closed"));
  }

  void name() {
    std::size_t n = 0;
    while (n < rest().size() && (is_letter(rest()[n]) || is_digit(rest()[n]))) ++n;
    add(Kind::name, std::string(rest().substr(0, n)));
    skip(n);
  }

  // Skips digits, with _ between them.
  std::size_t digits(std::size_t n, bool hex = false) const {
    const auto is = [&](std::size_t i) {
      const char c = i < rest().size() ? rest()[i] : ' ';
      return is_digit(c) || (hex && ((c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F')));
    };
    while (is(n) || (n < rest().size() && rest()[n] == '_' && is(n + 1))) ++n;
    return n;
  }

  void number() {
    const auto at = [&](std::size_t i) { return i < rest().size() ? rest()[i] : ' '; };
    const char base = static_cast<char>(at(1) | 0x20);
    if (at(0) == '0' && (base == 'x' || base == 'o' || base == 'b')) {
      const std::size_t n = digits(2, base == 'x');
      if (n > 2) return number(n, Kind::integer);
    }
    std::size_t n = digits(0);
    const bool fraction_allowed = tokens_.back().kind != Kind::sign || tokens_.back().text != ".";
    bool real = false;
    if (fraction_allowed && at(n) == '.' && is_digit(at(n + 1))) {
      n = digits(n + 1);
      real = true;
    }
    if (fraction_allowed && (at(n) | 0x20) == 'e') {
      const std::size_t first = n + (at(n + 1) == '+' || at(n + 1) == '-' ? 2 : 1);
      if (is_digit(at(first))) {
        n = digits(first);
        real = true;
      }
    }
    number(n, real ? Kind::real : Kind::integer);
  }
  void number(std::size_t n, Kind kind) {
    std::string text(rest().substr(0, n));
    std::erase(text, '_');
    add(kind, text);
    skip(n);
  }

  void quoted(char quote) {
    std::size_t n = 1;
    while (n < rest().size() && rest()[n] != quote) n += rest()[n] == '\\' ? 2 : 1;
    if (n >= rest().size()) fail("a text is not closed: its end quote is missing");
    try {
      add(Kind::text, unescaped(rest().substr(1, n - 1)));
    } catch (const std::invalid_argument& wrong) {
      fail(wrong.what());
    }
    skip(n + 1);
  }

  void sign(std::string& open) {
    static constexpr std::string_view kSigns[] = {"**", "//", "==", "!=", ">=", "<=", "+", "-", "*",
                                                  "/",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                                  ">",  "<",  "=",  ".",  ":",  "|",  ",", ";"};
    const auto* const known = std::find_if(std::begin(kSigns), std::end(kSigns),
                                           [&](std::string_view s) { return rest().starts_with(s); });
    if (known == std::end(kSigns))
      fail("a character that has no meaning here: " +
           printable(rest().substr(0, std::max<std::size_t>(1, utf8_length(rest(), 0)))));
    const char c = (*known)[0];
    if (c == '{' || c == '(' || c == '[') open += c == '{' ? '}' : c == '(' ? ')' : ']';
    if (c == '}' || c == ')' || c == ']') {
      if (open.empty() || open.back() != c) fail(str("a bracket ", c, " that closes none"));
      open.pop_back();
    }
    add(Kind::sign, std::string(*known));
    skip(known->size());
  }

  std::string source_;
  std::size_t at_ = 0;
  int line_ = 1;
  bool starts_line_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokens_of(std::string_view source) { return Lexer(with_line_feeds(source)).read(); }

}  // namespace ft::jinja
