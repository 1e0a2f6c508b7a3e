// Decodes the escapes of Python's texts.
#include <algorithm>
#include <charconv>
#include <stdexcept>

#include "data/chat/jinja/lexer.h"
#include "data/chat/jinja/text.h"

namespace ft::jinja {
namespace {

constexpr std::string_view kLetters = "abfnrtv\\'\"";
constexpr std::string_view kMeanings = "\a\b\f\n\r\t\v\\'\"";

// Reads a number of `least` to `most` digits at text[at], and moves `at` after it.
char32_t code(std::string_view text, std::size_t& at, std::size_t least, std::size_t most, int base) {
  const std::string_view digits = text.substr(at, most);
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  const auto count = static_cast<std::size_t>(end - digits.data());
  if (error != std::errc() || count < least) throw std::invalid_argument("an escape \\ without its digits");
  at += count;
  if (value > 0x10FFFF || (value >= 0xD800 && value < 0xE000))
    throw std::invalid_argument("an escape \\ that is no character");
  return value;
}

}  // namespace

std::string unescaped(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    if (text[i] != '\\' || i + 1 == text.size()) {
      out += text[i++];
      continue;
    }
    const char c = text[i + 1];
    i += 2;
    if (const std::size_t known = kLetters.find(c); known != std::string_view::npos) {
      out += kMeanings[known];
    } else if (c == 'x' || c == 'u' || c == 'U') {
      const std::size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : 8;
      out += utf8_of(code(text, i, digits, digits, 16));
    } else if (c >= '0' && c <= '7') {
      out += utf8_of(code(text, --i, 1, 3, 8));
    } else if (c == 'N') {
      throw std::invalid_argument("\\N{...}: characters by name are not supported; write \\uXXXX");
    } else if (c != '\n') {
      out += '\\';
      out += c;
    }
  }
  return out;
}

}  // namespace ft::jinja
