#include "engine/files/hash.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

namespace ft {
namespace {

class Sha256 {
 public:
  Sha256() { require(context_ && EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1, "SHA-256"); }
  void add(const void* data, std::size_t bytes) {
    require(EVP_DigestUpdate(context_.get(), data, bytes) == 1, "SHA-256");
  }
  std::string hex() {
    std::array<unsigned char, 32> digest{};
    require(EVP_DigestFinal_ex(context_.get(), digest.data(), nullptr) == 1, "SHA-256");
    return hexadecimal(digest);
  }

 private:
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context_{EVP_MD_CTX_new(), EVP_MD_CTX_free};
};

}  // namespace

std::string hexadecimal(std::span<const unsigned char> bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (const unsigned char b : bytes) out.append(1, kDigits[b >> 4]).append(1, kDigits[b & 15]);
  return out;
}

std::string sha256(std::string_view bytes) {
  Sha256 hash;
  hash.add(bytes.data(), bytes.size());
  return hash.hex();
}

std::string sha256(const InputFile& file) {
  Sha256 hash;
  std::vector<char> piece(std::size_t{1} << 20);
  for (std::int64_t at = 0; at < file.size();) {
    const std::int64_t bytes =
        std::min<std::int64_t>(file.size() - at, static_cast<std::int64_t>(piece.size()));
    file.read(at, piece.data(), bytes);
    hash.add(piece.data(), static_cast<std::size_t>(bytes));
    at += bytes;
  }
  return hash.hex();
}

std::string sampled_sha256(const InputFile& file) {
  constexpr std::int64_t kWhole = std::int64_t{64} << 20, kPieces = 64, kPiece = std::int64_t{16} << 10;
  if (file.size() <= kWhole) return sha256(file);
  Sha256 hash;
  const std::string size = std::to_string(file.size());
  hash.add(size.data(), size.size());
  std::vector<char> piece(static_cast<std::size_t>(kPiece));
  for (std::int64_t i = 0; i < kPieces; ++i) {
    file.read((file.size() - kPiece) * i / (kPieces - 1), piece.data(), kPiece);
    hash.add(piece.data(), piece.size());
  }
  return hash.hex();
}

std::array<unsigned char, 32> hmac_sha256(std::string_view key, std::string_view text) {
  std::array<unsigned char, 32> out{};
  unsigned int bytes = 0;
  require(HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
               reinterpret_cast<const unsigned char*>(text.data()), text.size(), out.data(), &bytes) &&
              bytes == out.size(),
          "HMAC-SHA-256");
  return out;
}

}  // namespace ft
