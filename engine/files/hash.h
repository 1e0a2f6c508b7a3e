// SHA-256 and HMAC-SHA-256, and git's SHA-1, with OpenSSL's libcrypto.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "engine/files/file.h"

namespace ft {

std::string sha256(std::string_view bytes);  // 64 hexadecimal digits
std::string sha256(const InputFile& file);   // of a file's contents, read in pieces
// Hash that tells contents apart without reading all of a large file. Up to 64 MiB it is the file's hash; for
// a larger file it covers the size and 64 pieces from the first byte to the last.
std::string sampled_sha256(const InputFile& file);

// Hash of bytes that arrive in pieces.
class Hasher {
 public:
  enum class Kind : std::uint8_t { sha1, sha256 };

  explicit Hasher(Kind kind = Kind::sha256);
  void add(std::string_view bytes);
  std::string hex();  // digits of the hash of all bytes; may be called once

 private:
  struct Context;
  std::shared_ptr<Context> context_;
};

std::string hexadecimal(std::span<const unsigned char> bytes);  // two digits a byte
std::array<unsigned char, 32> hmac_sha256(std::string_view key, std::string_view text);

}  // namespace ft
