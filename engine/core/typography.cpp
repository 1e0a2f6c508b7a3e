#include "engine/core/typography.h"

#include <algorithm>

namespace ft {
namespace {

struct Character {
  std::string_view bytes;  // in UTF-8
  char plain;
  const char* code;
};
constexpr Character kCharacters[] = {
    {"\u201c", '"', "U+201C"},  {"\u201d", '"', "U+201D"},  {"\u201e", '"', "U+201E"},
    {"\u201f", '"', "U+201F"},  {"\u2033", '"', "U+2033"},  {"\u00ab", '"', "U+00AB"},
    {"\u00bb", '"', "U+00BB"},  {"\uff02", '"', "U+FF02"},  {"\u2018", '\'', "U+2018"},
    {"\u2019", '\'', "U+2019"}, {"\u201a", '\'', "U+201A"}, {"\u201b", '\'', "U+201B"},
    {"\u2032", '\'', "U+2032"}, {"\uff07", '\'', "U+FF07"}, {"\u2010", '-', "U+2010"},
    {"\u2011", '-', "U+2011"},  {"\u2012", '-', "U+2012"},  {"\u2013", '-', "U+2013"},
    {"\u2014", '-', "U+2014"},  {"\u2015", '-', "U+2015"},  {"\u2212", '-', "U+2212"},
    {"\ufe58", '-', "U+FE58"},  {"\ufe63", '-', "U+FE63"},  {"\uff0d", '-', "U+FF0D"},
    {"\u00a0", ' ', "U+00A0"},  {"\u202f", ' ', "U+202F"},
};

bool is_letter_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

// Replaces typographic dashes at the beginning: by -- before a name, by - before a letter or a number.
std::string plain_start(const std::string& word) {
  std::size_t dashes = 0, at = 0;
  bool typographic = false;
  for (; at < word.size(); ++dashes) {
    const auto t = find_typography(word, at);
    const bool dash = t && t->at == at && t->plain == '-';
    if (!dash && word[at] != '-') break;
    typographic |= dash;
    at += dash ? t->bytes : 1;
  }
  if (!typographic) return word;
  const std::string rest = word.substr(at);
  const bool number = !rest.empty() && (rest[0] == '.' || (rest[0] >= '0' && rest[0] <= '9'));
  const bool name = dashes > 1 || rest.substr(0, rest.find('=')).size() > 1;
  return (!number && name ? "--" : "-") + rest;
}

bool is_json(const std::string& word) {
  const std::size_t equals = word.find('=');
  const std::size_t begin = equals == word.npos ? 0 : equals + 1;
  return begin < word.size() && (word[begin] == '{' || word[begin] == '[');
}

// An apostrophe is a single quote between letters or digits.
bool is_apostrophe(const std::string& word, const Typographic& t) {
  return t.plain == '\'' && t.at > 0 && is_letter_or_digit(word[t.at - 1]) && t.at + t.bytes < word.size() &&
         is_letter_or_digit(word[t.at + t.bytes]);
}

// Appends the word to `to` with plain characters. `open`: on entry whether a quotation is open, on return
// whether it still is.
void add_plain(const std::string& word, std::string& to, bool& open) {
  std::size_t from = 0;
  const bool json = is_json(word);
  for (auto t = find_typography(word); t; t = find_typography(word, from)) {
    to += word.substr(from, t->at - from);
    from = t->at + t->bytes;
    const bool quote = t->plain == '"' || t->plain == '\'';
    if (!quote || json || is_apostrophe(word, *t))
      to += t->plain;
    else
      open = !open;
  }
  to += word.substr(from);
}

}  // namespace

std::optional<Typographic> find_typography(std::string_view text, std::size_t from) {
  for (std::size_t at = from; at < text.size(); ++at) {
    if (static_cast<unsigned char>(text[at]) < 0x80) continue;
    for (const Character& c : kCharacters)
      if (text.substr(at).starts_with(c.bytes)) return Typographic{at, c.bytes.size(), c.plain, c.code};
  }
  return std::nullopt;
}

std::vector<std::string> plain_words(const std::vector<std::string>& words) {
  std::vector<std::string> plain;
  for (std::size_t i = 0; i < words.size(); ++i) {
    std::string joined;
    bool open = false;
    add_plain(plain_start(words[i]), joined, open);
    std::size_t last = i;
    for (std::string text = joined; open && last + 1 < words.size();) {
      add_plain(words[++last], text += ' ', open);
      if (!open) {
        joined = text;
        i = last;
      }
    }
    plain.push_back(joined);
  }
  return plain;
}

std::string shell_line(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) {
    const bool safe = !word.empty() && std::all_of(word.begin(), word.end(), [](char c) {
      return is_letter_or_digit(c) || std::string_view("_@%+=:,./-").find(c) != std::string_view::npos;
    });
    std::string quoted = word;
    for (std::size_t at = 0; !safe && (at = quoted.find('\'', at)) != quoted.npos; at += 4)
      quoted.replace(at, 1, "'\\''");
    line += (line.empty() ? "" : " ") + (safe ? word : "'" + quoted + "'");
  }
  return line;
}

}  // namespace ft
