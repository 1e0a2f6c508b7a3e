// SHA-256, by OpenSSL's libcrypto.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "engine/io/file.h"

namespace ft {

std::string sha256(std::string_view bytes);  // 64 hexadecimal digits
std::string sha256(const InputFile& file);   // of a whole file, in pieces

}  // namespace ft
