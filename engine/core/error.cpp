#include "engine/core/error.h"

#include <algorithm>

#include "engine/core/utf8.h"

namespace ft {

void throw_internal_error(const char* what, const std::source_location& at) {
  throw InternalError(str(what, " (", at.file_name(), ":", at.line(), ")"));
}

std::string printable(std::string_view text, std::size_t limit) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out;
  const std::string_view shown = utf8_beginning(text, limit);
  for (std::size_t i = 0; i < shown.size();) {
    const std::size_t n = utf8_length(shown, i);
    const auto u = static_cast<unsigned char>(shown[i]);
    if (n > 0 && u >= 0x20 && u != 0x7f)
      out += shown.substr(i, n);
    else
      out.append("\\x").append(1, kHex[u >> 4]).append(1, kHex[u & 15]);
    i += std::max<std::size_t>(n, 1);
  }
  if (text.size() > limit) out += "...";
  return out;
}

}  // namespace ft
