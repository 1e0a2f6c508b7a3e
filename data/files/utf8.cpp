#include "data/files/utf8.h"

namespace ft {
namespace {

char32_t code_point(std::string_view c) {
  const auto byte = [&](std::size_t k) { return char32_t{static_cast<unsigned char>(c[k])}; };
  switch (c.size()) {
    case 1:
      return byte(0);
    case 2:
      return (byte(0) & 0x1F) << 6 | (byte(1) & 0x3F);
    case 3:
      return (byte(0) & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F);
    default:
      return (byte(0) & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F);
  }
}

}  // namespace

bool is_white_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

char32_t utf8_code_point(std::string_view text, std::size_t i) {
  return code_point(text.substr(i, utf8_length(text, i)));
}

std::string_view strip_left(std::string_view text) {
  while (const std::size_t n = utf8_length(text, 0)) {
    if (!is_white_space(code_point(text.substr(0, n)))) break;
    text.remove_prefix(n);
  }
  return text;
}

std::string_view strip_right(std::string_view text) {
  while (!text.empty()) {
    std::size_t begin = text.size() - 1;
    while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
    const std::string_view last = text.substr(begin);
    if (utf8_length(last, 0) != last.size() || !is_white_space(code_point(last))) break;
    text.remove_suffix(last.size());
  }
  return text;
}

std::string replaced(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  for (;;) {
    const std::size_t at = text.find(from);
    out += text.substr(0, at);
    if (at == std::string_view::npos) return out;
    out += to;
    text.remove_prefix(at + from.size());
  }
}

}  // namespace ft
