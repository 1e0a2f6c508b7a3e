// Reads untrusted bytes from front to back: every size is checked before it is used.
#pragma once
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string_view>

namespace ft::columnar {

using Bytes = std::string_view;

// Error in a file's content. The code that catches it adds the file and the place.
struct Damage : std::runtime_error {
  using runtime_error::runtime_error;
};

inline void check(bool ok, const char* what) {
  if (!ok) throw Damage(what);
}

// Deepest nesting of schemas, and of rows with them.
inline constexpr int kDeepest = 60;
// Largest size of a part that is decompressed at once: a page, or a buffer.
inline constexpr std::int64_t kLargestPart = std::int64_t{256} << 20;

// Returns the little-endian number at the beginning of `bytes`, which must be long enough.
template <class T>
T little(Bytes bytes) {
  T value;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

class Cursor {
 public:
  explicit Cursor(Bytes bytes) : left_(bytes) {}

  Bytes left() const { return left_; }
  bool empty() const { return left_.empty(); }
  Bytes take(std::uint64_t size) {
    check(size <= left_.size(), "it ends early");
    const Bytes taken = left_.substr(0, size);
    left_.remove_prefix(size);
    return taken;
  }
  template <class T>
  T number() {
    return little<T>(take(sizeof(T)));
  }
  // Reads a number with seven bits in each byte, the lowest first.
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = number<std::uint8_t>();
      value |= std::uint64_t{byte & 0x7FU} << shift;
      if (byte < 0x80) return value;
    }
    throw Damage("a number of more than 64 bits");
  }
  std::int64_t zigzag() {
    const std::uint64_t v = varint();
    return static_cast<std::int64_t>((v >> 1) ^ (~(v & 1) + 1));
  }

 private:
  Bytes left_;
};

}  // namespace ft::columnar
