// Computes CRC-32 with a table, the lowest bit of each byte first.
#pragma once
#include <array>
#include <cstdint>
#include <string_view>

namespace ft {

inline constexpr std::uint32_t kCastagnoli = 0x82f63b78u;  // TensorFlow's records
inline constexpr std::uint32_t kIeee = 0xedb88320u;        // zlib's, and W&B's records

template <std::uint32_t kPolynomial>
std::uint32_t crc32(std::string_view data) {
  static constexpr auto kTable = [] {
    std::array<std::uint32_t, 256> table{};
    for (std::uint32_t i = 0; i < 256; ++i) {
      std::uint32_t c = i;
      for (int bit = 0; bit < 8; ++bit) c = c >> 1 ^ (c & 1 ? kPolynomial : 0u);
      table[i] = c;
    }
    return table;
  }();
  std::uint32_t c = 0xffffffffu;
  for (const char byte : data) c = kTable[(c ^ static_cast<unsigned char>(byte)) & 0xff] ^ c >> 8;
  return ~c;
}

}  // namespace ft
