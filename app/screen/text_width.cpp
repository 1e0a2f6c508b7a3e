// Measures the width of a text in columns, and cuts it to fit. A line that is redrawn in place must not be
// too long, because one column too many scrolls the screen.
#include <algorithm>

#include "app/screen/format.h"

namespace ft::show {
namespace {

struct Glyph {
  std::size_t bytes;  // bytes of the code point or escape sequence
  int width;
};

char32_t code_point(const std::string& text, std::size_t at, std::size_t& bytes) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[at + i]); };
  const unsigned char first = byte(0);
  bytes = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  char32_t c = first < 0x80 ? first : first & (0xffu >> (bytes + 1));
  for (std::size_t i = 1; i < bytes; ++i) {
    if (at + i >= text.size() || (byte(i) & 0xc0) != 0x80) {  // invalid UTF-8 is shown as a replacement mark
      bytes = i;
      return 0xfffd;
    }
    c = c << 6 | (byte(i) & 0x3fu);
  }
  return c;
}

bool between(char32_t c, char32_t first, char32_t last) { return c >= first && c <= last; }

// Returns the columns of a character: 2 in the blocks that terminals draw wide, 0 for marks on the character
// before.
int width_of(char32_t c) {
  if (c < 0x20 || c == 0x7f) return 0;
  if (between(c, 0x300, 0x36f) || between(c, 0x200b, 0x200f) || between(c, 0xfe00, 0xfe0f)) return 0;
  const bool wide = between(c, 0x1100, 0x115f) || between(c, 0x2e80, 0xa4cf) || between(c, 0xac00, 0xd7a3) ||
                    between(c, 0xf900, 0xfaff) || between(c, 0xfe30, 0xfe6f) || between(c, 0xff00, 0xff60) ||
                    between(c, 0xffe0, 0xffe6) || between(c, 0x1f300, 0x1f64f) ||
                    between(c, 0x1f900, 0x1f9ff) || between(c, 0x20000, 0x3fffd);
  return wide ? 2 : 1;
}

Glyph glyph(const std::string& text, std::size_t at) {
  if (text[at] == '\x1b' && at + 1 < text.size() && text[at + 1] == '[') {
    std::size_t end = at + 2;
    while (end < text.size() && (text[end] < '@' || text[end] > '~')) ++end;
    return {std::min(end + 1, text.size()) - at, 0};
  }
  Glyph g{};
  g.width = width_of(code_point(text, at, g.bytes));
  return g;
}

}  // namespace

std::int64_t columns(const std::string& text) {
  std::int64_t sum = 0;
  for (std::size_t at = 0; at < text.size();) {
    const Glyph g = glyph(text, at);
    sum += g.width;
    at += g.bytes;
  }
  return sum;
}

std::string fit(const std::string& text, std::int64_t width) {
  if (columns(text) <= width) return text;
  const std::string dots = width >= 3 ? "..." : "";
  const std::int64_t room = width - static_cast<std::int64_t>(dots.size());
  std::string out;
  std::int64_t used = 0;
  bool full = false;
  for (std::size_t at = 0; at < text.size();) {
    const Glyph g = glyph(text, at);
    if (!full && used + g.width > room) {
      full = true;
      out += dots;
    }
    if (!full || (g.width == 0 && text[at] == '\x1b')) out.append(text, at, g.bytes);  // colours must end
    used += full ? 0 : g.width;
    at += g.bytes;
  }
  return out;
}

}  // namespace ft::show
