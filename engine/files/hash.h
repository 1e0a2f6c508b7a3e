// SHA-256 and HMAC-SHA-256, by OpenSSL's libcrypto.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "engine/files/file.h"

namespace ft {

std::string sha256(std::string_view bytes);  // 64 hexadecimal digits
std::string sha256(const InputFile& file);   // of a whole file, in pieces
// Tells contents apart without reading all: a file of up to 64 MiB is hashed whole, of a larger one its size
// and 64 pieces from its first byte to its last.
std::string sampled_sha256(const InputFile& file);

std::string hexadecimal(std::span<const unsigned char> bytes);  // two digits a byte
std::array<unsigned char, 32> hmac_sha256(std::string_view key, std::string_view text);

}  // namespace ft
