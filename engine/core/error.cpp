#include "engine/core/error.h"

namespace ft {

void throw_internal_error(const char* what, const std::source_location& at) {
  throw InternalError(str(what, " (", at.file_name(), ":", at.line(), ")"));
}

std::string printable(std::string_view text, std::size_t limit) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out;
  for (const char c : text.substr(0, limit)) {
    const auto u = static_cast<unsigned char>(c);
    if (u >= 0x20 && u != 0x7f)
      out += c;
    else
      out.append("\\x").append(1, kHex[u >> 4]).append(1, kHex[u & 15]);
  }
  if (text.size() > limit) out += "...";
  return out;
}

}  // namespace ft
