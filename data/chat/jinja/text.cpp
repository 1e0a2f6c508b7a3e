#include "data/chat/jinja/text.h"

#include <algorithm>

#include "data/files/utf8.h"
#include "data/tokenizers/unicode.h"

namespace ft::jinja {

std::string utf8_of(char32_t c) {
  const auto byte = [](char32_t v) { return static_cast<char>(v); };
  if (c < 0x80) return {byte(c)};
  if (c < 0x800) return {byte(0xC0 | c >> 6), byte(0x80 | (c & 0x3F))};
  if (c < 0x10000) return {byte(0xE0 | c >> 12), byte(0x80 | (c >> 6 & 0x3F)), byte(0x80 | (c & 0x3F))};
  return {byte(0xF0 | c >> 18), byte(0x80 | (c >> 12 & 0x3F)), byte(0x80 | (c >> 6 & 0x3F)),
          byte(0x80 | (c & 0x3F))};
}

std::int64_t length_of(std::string_view text) {
  return std::count_if(text.begin(), text.end(),
                       [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

std::vector<std::size_t> places_of(std::string_view text) {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < text.size(); ++i)
    if ((static_cast<unsigned char>(text[i]) & 0xC0) != 0x80) places.push_back(i);
  places.push_back(text.size());
  return places;
}

char32_t lower_of(char32_t c) { return lower_case(c); }
char32_t upper_of(char32_t c) { return upper_case(c); }
bool is_lower(char32_t c) { return char_kind(c) == CharKind::lower; }
bool is_upper(char32_t c) { return char_kind(c) == CharKind::upper; }
bool is_alpha(char32_t c) {
  const CharKind kind = char_kind(c);
  return kind == CharKind::lower || kind == CharKind::upper || kind == CharKind::title ||
         kind == CharKind::other_letter;
}
bool is_decimal(char32_t c) { return char_kind(c) == CharKind::decimal; }
bool is_printed(char32_t c) {
  if (c == ' ') return true;
  const CharKind kind = char_kind(c);
  return kind != CharKind::control && kind != CharKind::space;
}

namespace {

template <class Map>
std::string mapped(std::string_view text, Map&& map) {
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t n = utf8_length(text, i);
    if (n == 0) {
      out += text[i++];
      continue;
    }
    out += utf8_of(map(utf8_code_point(text, i)));
    i += n;
  }
  return out;
}

}  // namespace

std::string lower(std::string_view text) { return mapped(text, lower_of); }
std::string upper(std::string_view text) { return mapped(text, upper_of); }

std::string capitalized(std::string_view text) {
  bool first = true;
  return mapped(text, [&](char32_t c) {
    const char32_t made = first ? upper_of(c) : lower_of(c);
    first = false;
    return made;
  });
}

std::string_view stripped(std::string_view text, std::string_view set, bool left, bool right) {
  if (set.empty()) {
    if (left) text = strip_left(text);
    return right ? strip_right(text) : text;
  }
  const auto in_set = [&](std::string_view c) { return set.find(c) != std::string_view::npos; };
  while (left && !text.empty()) {
    const std::string_view c = text.substr(0, std::max<std::size_t>(1, utf8_length(text, 0)));
    if (!in_set(c)) break;
    text.remove_prefix(c.size());
  }
  while (right && !text.empty()) {
    std::size_t begin = text.size() - 1;
    while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
    if (!in_set(text.substr(begin))) break;
    text.remove_suffix(text.size() - begin);
  }
  return text;
}

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  for (text = strip_left(text); !text.empty(); text = strip_left(text)) {
    std::size_t n = 0;
    while (n < text.size() && !is_white_space(utf8_code_point(text, n)))
      n += std::max<std::size_t>(1, utf8_length(text, n));
    words.push_back(text.substr(0, n));
    text.remove_prefix(n);
  }
  return words;
}

}  // namespace ft::jinja
