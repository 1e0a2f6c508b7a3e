// Protocol buffers, written by hand: linking libprotobuf would clash with the copy inside SentencePiece, and
// ft writes only few kinds of messages. A field is its key (number and wire type) and its value; a message is
// a sequence of fields.
#pragma once
#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

namespace ft::protobuf {

template <class Integer>
std::string little_endian(Integer value) {
  std::string out;
  for (std::size_t i = 0; i < sizeof(Integer); ++i) out += static_cast<char>(value >> 8 * i & 0xff);
  return out;
}

enum class Wire : std::uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

inline std::string varint(std::uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out += static_cast<char>((value & 0x7f) | 0x80);
  return out += static_cast<char>(value);
}
inline std::string key(int field, Wire wire) {
  return varint(static_cast<std::uint64_t>(field << 3 | static_cast<int>(wire)));
}
inline std::string integer(int field, std::int64_t v) {
  return key(field, Wire::varint) + varint(static_cast<std::uint64_t>(v));
}
inline std::string real64(int field, double v) {
  return key(field, Wire::fixed64) + little_endian(std::bit_cast<std::uint64_t>(v));
}
inline std::string real32(int field, float v) {
  return key(field, Wire::fixed32) + little_endian(std::bit_cast<std::uint32_t>(v));
}
// A field that is a text, bytes, or a message.
inline std::string bytes(int field, std::string_view v) {
  return key(field, Wire::bytes) + varint(v.size()) + std::string(v);
}

}  // namespace ft::protobuf
