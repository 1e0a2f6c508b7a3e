#include "app/deepspeed/read.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

#include "engine/core/typography.h"
#include "engine/files/file.h"

namespace ft::deepspeed {
namespace {

constexpr std::int64_t kLargest = 1 << 20;  // bytes of a file

[[noreturn]] void refuse(const std::string& text, const std::string& name, std::size_t at,
                         const std::string& what) {
  const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n');
  const std::size_t newline = at == 0 ? text.npos : text.rfind('\n', at - 1);
  const std::size_t begin = newline == text.npos ? 0 : newline + 1;
  const std::size_t end = std::min(text.find('\n', at), text.size());
  throw UserError(Exit::config, str(printable(name), ":", line, ": ", what, "\n  ",
                                    printable(text.substr(begin, end - begin), 120)));
}

// Returns the place after a quoted text that begins at `at`.
std::size_t behind_text(const std::string& text, std::size_t at) {
  for (++at; at < text.size() && text[at] != '"' && text[at] != '\n'; ++at)
    if (text[at] == '\\') ++at;
  return std::min(at + 1, text.size());
}

void blank(std::string& text, std::size_t begin, std::size_t end) {
  for (std::size_t i = begin; i < end; ++i)
    if (text[i] != '\n') text[i] = ' ';
}

// Replaces comments and trailing commas by spaces, so that errors have the right line and column.
std::string plain_json(std::string text, const std::string& name) {
  std::size_t comma = text.npos;  // a comma after a value, if only spaces and comments follow so far
  char last = '{';                // last character that is not in a space or comment
  const std::string whole = text;
  const auto starts = [&](std::size_t at, std::string_view what) {
    return text.compare(at, what.size(), what) == 0;
  };
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    if (text[at] == '"') {
      at = behind_text(text, at);
      comma = text.npos;
      last = '"';
    } else if (text[at] == '#' || starts(at, "//")) {
      at = std::min(text.find('\n', at), text.size());
      blank(text, begin, at);
    } else if (starts(at, "/*")) {
      const std::size_t end = text.find("*/", at + 2);
      if (end == text.npos) refuse(whole, name, begin, "the comment that begins with /* does not end");
      at = end + 2;
      blank(text, begin, at);
    } else if (!std::isspace(static_cast<unsigned char>(text[at]))) {
      if ((text[at] == '}' || text[at] == ']') && comma != text.npos) text[comma] = ' ';
      const bool value = last != '{' && last != '[' && last != ',';
      comma = text[at] == ',' && value ? at : text.npos;
      last = text[at++];
    } else {
      ++at;
    }
  }
  return text;
}

void refuse_typography(const std::string& json, const std::string& text, const std::string& name) {
  for (std::size_t at = 0; at < json.size();) {
    const auto found = find_typography(json, at);
    if (!found) return;
    const std::size_t quote = json.find('"', at);
    if (quote < found->at) {
      at = behind_text(json, quote);
      continue;
    }
    const bool space = found->plain == ' ';
    refuse(text, name, found->at,
           str("a typographic ", found->kind(), ", ", json.substr(found->at, found->bytes), " (", found->code,
               "), where JSON needs a plain ", space ? "space" : std::string(1, found->plain)));
  }
}

}  // namespace

SettingsText parse_file(const std::string& text, const std::string& name) {
  const std::string json = plain_json(text, name);
  refuse_typography(json, text, name);
  SettingsText file = parse_settings(json, name);
  if (!file.value.is_object())
    throw UserError(Exit::config, printable(name) + ": DeepSpeed's settings are a JSON object {...}");
  return file;
}

SettingsText read_file(const std::string& path) {
  return parse_file(ft::read_file(path, kLargest, Exit::config), path);
}

}  // namespace ft::deepspeed
