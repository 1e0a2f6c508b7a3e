#include "data/tokenizers/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <memory>

#include "data/files/utf8.h"
#include "data/tokenizers/regex.h"
#include "engine/core/error.h"

namespace ft {
namespace {

utf8proc_option_t options_of(NormalForm form) {
  const int stable = UTF8PROC_STABLE;
  switch (form) {
    case NormalForm::nfc:
      return static_cast<utf8proc_option_t>(stable | UTF8PROC_COMPOSE);
    case NormalForm::nfd:
      return static_cast<utf8proc_option_t>(stable | UTF8PROC_DECOMPOSE);
    case NormalForm::nfkc:
      return static_cast<utf8proc_option_t>(stable | UTF8PROC_COMPOSE | UTF8PROC_COMPAT);
    case NormalForm::nfkd:
      return static_cast<utf8proc_option_t>(stable | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT);
  }
  throw InternalError("no such normal form");
}

}  // namespace

std::string normal_form(std::string_view text, NormalForm form) {
  // ASCII is in every form; text below U+0300, whose first byte is 0xCC, is in form C.
  const unsigned char settled = form == NormalForm::nfc ? 0xCC : 0x80;
  if (std::all_of(text.begin(), text.end(), [&](char c) { return static_cast<unsigned char>(c) < settled; }))
    return std::string(text);
  utf8proc_uint8_t* made = nullptr;
  const auto size = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                 static_cast<utf8proc_ssize_t>(text.size()), &made, options_of(form));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(made, &std::free);
  if (size < 0) throw UserError(Exit::input, str("a text cannot be normalized: ", utf8proc_errmsg(size)));
  return {reinterpret_cast<const char*>(made), static_cast<std::size_t>(size)};
}

std::size_t grapheme_length(std::string_view text, std::size_t at) {
  utf8proc_int32_t state = 0;
  std::size_t end = at + utf8_length(text, at);
  for (auto last = static_cast<utf8proc_int32_t>(utf8_code_point(text, at)); end < text.size();) {
    const auto next = static_cast<utf8proc_int32_t>(utf8_code_point(text, end));
    if (utf8proc_grapheme_break_stateful(last, next, &state)) break;
    last = next;
    end += utf8_length(text, end);
  }
  return end - at;
}

bool is_word_character(char32_t c) {
  if (c < 0x80) return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  char text[4];
  const auto size =
      utf8proc_encode_char(static_cast<utf8proc_int32_t>(c), reinterpret_cast<utf8proc_uint8_t*>(text));
  Regex::Match unused;
  return Regex::Finder(Regex(kWordPattern)).find({text, static_cast<std::size_t>(size)}, 0, unused);
}

CharKind char_kind(char32_t c) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_LL:
      return CharKind::lower;
    case UTF8PROC_CATEGORY_LU:
      return CharKind::upper;
    case UTF8PROC_CATEGORY_LT:
      return CharKind::title;
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return CharKind::other_letter;
    case UTF8PROC_CATEGORY_ND:
      return CharKind::decimal;
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
      return CharKind::other_number;
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return CharKind::space;
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
      return CharKind::control;
    default:
      return CharKind::other;
  }
}

char32_t lower_case(char32_t c) {
  return static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
}

char32_t upper_case(char32_t c) {
  return static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c)));
}

}  // namespace ft
