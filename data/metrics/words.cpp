#include "data/metrics/words.h"

#include <algorithm>
#include <array>
#include <utility>

#include "data/files/utf8.h"
#include "data/metrics/stemmer.h"

namespace ft::metrics {
namespace {

bool is_space(char32_t c) { return is_white_space(c) || (c >= 0x1C && c <= 0x1F); }

// Calls each(character, its bytes).
template <class Each>
void each_character(std::string_view text, Each each) {
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = utf8_length(text, i);
    each(length > 0 ? utf8_code_point(text, i) : U'\uFFFD', text.substr(i, std::max<std::size_t>(1, length)));
    i += std::max<std::size_t>(1, length);
  }
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_stop(char c) { return c == '.' || c == ','; }
// Returns true for ASCII's punctuation except ' , - . and for the space.
bool stands_alone(char c) {
  return c >= ' ' && c <= '~' && !is_digit(c) && !(c >= 'A' && c <= 'Z') && !(c >= 'a' && c <= 'z') &&
         std::string_view("',-.").find(c) == std::string_view::npos;
}

// Parts each pair of bytes that matches, from left to right without overlap: writes `before`, the first byte,
// a space, the second byte, `after`. Bytes can stand for characters, because the conditions are about ASCII
// characters only.
std::string part_pairs(std::string_view text, bool (*matches)(char, char), std::string_view before,
                       std::string_view after) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (i + 1 == text.size() || !matches(text[i], text[i + 1])) {
      out += text[i];
      continue;
    }
    out.append(before).append({text[i], ' ', text[i + 1]}).append(after);
    ++i;
  }
  return out;
}

}  // namespace

std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> words;
  bool inside = false;
  each_character(text, [&](char32_t c, std::string_view bytes) {
    if (is_space(c)) {
      inside = false;
    } else if (inside) {
      words.back() = {words.back().data(), words.back().size() + bytes.size()};
    } else {
      words.push_back(bytes);
      inside = true;
    }
  });
  return words;
}

Symbols characters(std::string_view text) {
  Symbols out;
  each_character(text, [&](char32_t c, std::string_view) {
    if (!is_space(c)) out.push_back(c);
  });
  return out;
}

std::string tokenize_13a(std::string_view text) {
  std::string s(text);
  constexpr std::array<std::array<std::string_view, 2>, 7> kReplaced{{{"<skipped>", ""},
                                                                      {"-\n", ""},
                                                                      {"\n", " "},
                                                                      {"&quot;", "\""},
                                                                      {"&amp;", "&"},
                                                                      {"&lt;", "<"},
                                                                      {"&gt;", ">"}}};
  for (const auto& [from, to] : kReplaced) s = replaced(s, from, to);
  std::string apart = " ";
  for (const char c : s) stands_alone(c) ? apart.append({' ', c, ' '}) : apart.append(1, c);
  apart += ' ';
  // Stops stay inside numbers; a dash is parted from a digit before it.
  apart = part_pairs(
      apart, [](char a, char b) { return !is_digit(a) && is_stop(b); }, "", " ");
  apart = part_pairs(
      apart, [](char a, char b) { return is_stop(a) && !is_digit(b); }, " ", "");
  return part_pairs(
      apart, [](char a, char b) { return is_digit(a) && b == '-'; }, "", " ");
}

std::vector<std::string> tokenize_rouge(std::string_view text, bool stem) {
  std::vector<std::string> words;
  bool inside = false;
  const auto letter = [&](char c) {
    if (!inside) words.emplace_back();
    words.back() += c;
    inside = true;
  };
  each_character(text, [&](char32_t c, std::string_view) {
    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) return letter(static_cast<char>(c));
    if (c >= 'A' && c <= 'Z') return letter(static_cast<char>(c - 'A' + 'a'));
    // No other characters have a lower case with ASCII letters.
    constexpr char32_t kKelvin = 0x212A, kDottedI = 0x0130;  // K; I and a combining dot, which ends the word
    if (c == kKelvin) return letter('k');
    if (c == kDottedI) letter('i');
    inside = false;
  });
  if (stem)
    for (std::string& word : words)
      if (word.size() > 3) word = porter_stem(std::move(word));
  return words;
}

}  // namespace ft::metrics
