#include "engine/core/utf8.h"

#include <algorithm>

namespace ft {

std::size_t utf8_length(std::string_view text, std::size_t i) {
  const auto byte = [&](std::size_t k) { return k < text.size() ? static_cast<unsigned char>(text[k]) : 0u; };
  const unsigned c = byte(i), d = byte(i + 1);
  if (i >= text.size()) return 0;
  if (c < 0x80) return 1;
  const std::size_t n = c < 0xC2 ? 0 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : c < 0xF5 ? 4 : 0;
  for (std::size_t k = 1; k < n; ++k)
    if ((byte(i + k) & 0xC0) != 0x80) return 0;
  // Overlong forms, surrogates, and characters above U+10FFFF.
  const bool wrong = (c == 0xE0 && d < 0xA0) || (c == 0xED && d > 0x9F) || (c == 0xF0 && d < 0x90) ||
                     (c == 0xF4 && d > 0x8F);
  return wrong ? 0 : n;
}

bool is_utf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t n = utf8_length(text, i);
    if (n == 0) return false;
    i += n;
  }
  return true;
}

std::string_view utf8_beginning(std::string_view text, std::size_t most) {
  if (text.size() <= most) return text;
  for (std::size_t begin = most - std::min<std::size_t>(most, 3); begin < most; ++begin)
    if (begin + utf8_length(text, begin) > most) return text.substr(0, begin);
  return text.substr(0, most);
}

}  // namespace ft
