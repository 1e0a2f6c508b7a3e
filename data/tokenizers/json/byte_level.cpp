#include "data/tokenizers/json/byte_level.h"

#include <array>
#include <cstdint>

#include "data/files/utf8.h"

namespace ft {
namespace {

constexpr std::size_t kEnd = 0x144;  // one past the alphabet's last character

struct Alphabet {
  std::array<char32_t, 256> character{};
  std::array<std::int16_t, kEnd> byte{};
};

constexpr Alphabet make_alphabet() {
  Alphabet a;
  for (auto& b : a.byte) b = -1;
  char32_t next = 0x100;
  for (std::size_t b = 0; b < 256; ++b) {
    const bool itself = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
    a.character[b] = itself ? static_cast<char32_t>(b) : next++;
    a.byte[a.character[b]] = static_cast<std::int16_t>(b);
  }
  return a;
}

constexpr Alphabet kAlphabet = make_alphabet();

}  // namespace

void append_byte_level(std::string_view text, std::string& to) {
  for (const char letter : text) {
    const char32_t c = kAlphabet.character[static_cast<unsigned char>(letter)];
    if (c >= 0x80) to.push_back(static_cast<char>(0xC0 | c >> 6));
    to.push_back(static_cast<char>(c >= 0x80 ? 0x80 | (c & 0x3F) : c));
  }
}

std::optional<std::string> from_byte_level(std::string_view text) {
  std::string bytes;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t n = utf8_length(text, i);
    if (n == 0) return std::nullopt;
    const char32_t c = utf8_code_point(text, i);
    if (c >= kEnd || kAlphabet.byte[c] < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(kAlphabet.byte[c]));
    i += n;
  }
  return bytes;
}

}  // namespace ft
