// Base64, in which the hub takes small files, HTTP a password, and OpenAI's API sends vectors.
#pragma once
#include <algorithm>
#include <string>
#include <string_view>

namespace ft {

// Returns the bytes in Base64 (RFC 4648), with padding and without line breaks.
inline std::string base64(std::string_view bytes) {
  static constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    unsigned int bits = 0;
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - at);
    for (std::size_t i = 0; i < 3; ++i)
      bits = bits << 8 | (i < count ? static_cast<unsigned char>(bytes[at + i]) : 0U);
    for (std::size_t i = 0; i < 4; ++i) out += i <= count ? kDigits[bits >> (18 - 6 * i) & 63] : '=';
  }
  return out;
}

}  // namespace ft
