#include "engine/crypto/frame_mac.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <cstring>
#include <limits>

#include "engine/core/require.h"

namespace ft {
namespace {

const unsigned char* bytes_of(const std::byte* b) { return reinterpret_cast<const unsigned char*>(b); }

void expect_done(bool done) { require(done, "GMAC of OpenSSL's"); }

}  // namespace

struct FrameMac::Context {
  std::unique_ptr<EVP_CIPHER_CTX, decltype(&EVP_CIPHER_CTX_free)> own{EVP_CIPHER_CTX_new(),
                                                                      EVP_CIPHER_CTX_free};
};

FrameMac::FrameMac(const Key& key) : context_(std::make_unique<Context>()) {
  EVP_CIPHER_CTX* own = context_->own.get();
  expect_done(own && EVP_EncryptInit_ex(own, EVP_aes_128_gcm(), nullptr, bytes_of(key.data()), nullptr) == 1);
}

FrameMac::FrameMac(FrameMac&&) noexcept = default;
FrameMac& FrameMac::operator=(FrameMac&&) noexcept = default;
FrameMac::~FrameMac() = default;

FrameMac::Tag FrameMac::tag(std::uint64_t number, std::span<const std::byte> frame) {
  require(frame.size() <= std::numeric_limits<int>::max(), "a frame's size");
  EVP_CIPHER_CTX* own = context_->own.get();
  std::array<unsigned char, 12> nonce{};
  std::memcpy(nonce.data() + 4, &number, sizeof number);
  int size = 0;
  Tag out{};
  expect_done(EVP_EncryptInit_ex(own, nullptr, nullptr, nullptr, nonce.data()) == 1);
  expect_done(
      EVP_EncryptUpdate(own, nullptr, &size, bytes_of(frame.data()), static_cast<int>(frame.size())) == 1);
  std::array<unsigned char, 16> none{};
  expect_done(EVP_EncryptFinal_ex(own, none.data(), &size) == 1);
  expect_done(EVP_CIPHER_CTX_ctrl(own, EVP_CTRL_AEAD_GET_TAG, static_cast<int>(out.size()), out.data()) == 1);
  return out;
}

bool same_tag(const FrameMac::Tag& a, const FrameMac::Tag& b) {
  return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace ft
