#include "engine/files/hash.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

namespace ft {
namespace {

void require_done(bool done) { require(done, "a hash of OpenSSL's"); }

}  // namespace

struct Hasher::Context {
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> own{EVP_MD_CTX_new(), EVP_MD_CTX_free};
};

Hasher::Hasher(Kind kind) : context_(std::make_shared<Context>()) {
  EVP_MD_CTX* own = context_->own.get();
  require_done(own && EVP_DigestInit_ex(own, kind == Kind::sha1 ? EVP_sha1() : EVP_sha256(), nullptr) == 1);
}

void Hasher::add(std::string_view bytes) {
  require_done(EVP_DigestUpdate(context_->own.get(), bytes.data(), bytes.size()) == 1);
}

std::string Hasher::hex() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int bytes = 0;
  require_done(EVP_DigestFinal_ex(context_->own.get(), digest.data(), &bytes) == 1);
  return hexadecimal({digest.data(), bytes});
}

std::string hexadecimal(std::span<const unsigned char> bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (const unsigned char b : bytes) out.append(1, kDigits[b >> 4]).append(1, kDigits[b & 15]);
  return out;
}

std::string sha256(std::string_view bytes) {
  Hasher hash;
  hash.add(bytes);
  return hash.hex();
}

std::string sha256(const InputFile& file) {
  Hasher hash;
  std::vector<char> piece(std::size_t{1} << 20);
  for (std::int64_t at = 0; at < file.size();) {
    const std::int64_t bytes =
        std::min<std::int64_t>(file.size() - at, static_cast<std::int64_t>(piece.size()));
    file.read(at, piece.data(), bytes);
    hash.add({piece.data(), static_cast<std::size_t>(bytes)});
    at += bytes;
  }
  return hash.hex();
}

std::string sampled_sha256(const InputFile& file) {
  constexpr std::int64_t kWhole = std::int64_t{64} << 20, kPieces = 64, kPiece = std::int64_t{16} << 10;
  if (file.size() <= kWhole) return sha256(file);
  Hasher hash;
  hash.add(std::to_string(file.size()));
  std::vector<char> piece(static_cast<std::size_t>(kPiece));
  for (std::int64_t i = 0; i < kPieces; ++i) {
    file.read((file.size() - kPiece) * i / (kPieces - 1), piece.data(), kPiece);
    hash.add({piece.data(), piece.size()});
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
