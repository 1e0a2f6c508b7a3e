#include "engine/ranks/handshake.h"

#include <sys/random.h>

#include <cstring>

#include "engine/core/require.h"
#include "engine/files/hash.h"

namespace ft {
namespace {

Proof proof(const std::string& token, const char* role, const Hello& hello, const Challenge& challenge,
            std::span<const std::byte> greeting) {
  std::string text = role;
  const auto add = [&](const void* data, std::size_t bytes) {
    text.append(static_cast<const char*>(data), bytes);
  };
  add(&hello.version, sizeof hello.version);
  add(&hello.encryption, sizeof hello.encryption);
  add(hello.nonce.data(), hello.nonce.size());
  add(&challenge.version, sizeof challenge.version);
  add(&challenge.encryption, sizeof challenge.encryption);
  add(challenge.nonce.data(), challenge.nonce.size());
  add(greeting.data(), greeting.size());
  Proof out{};
  const auto digest = hmac_sha256(token, text);
  std::memcpy(out.data(), digest.data(), out.size());
  return out;
}

}  // namespace

Nonce random_nonce() {
  Nonce n{};
  require(getrandom(n.data(), n.size(), 0) == static_cast<ssize_t>(n.size()), "no random bytes");
  return n;
}

std::string random_token() {
  const Nonce n = random_nonce();
  return hexadecimal({reinterpret_cast<const unsigned char*>(n.data()), n.size() / 2});
}

Proof proof_of_listener(const std::string& token, const Hello& hello, const Challenge& own) {
  return proof(token, "ft listener", hello, own, {});
}

Proof proof_of_guest(const std::string& token, const Hello& hello, const Challenge& challenge,
                     std::span<const std::byte> greeting) {
  return proof(token, "ft guest", hello, challenge, greeting);
}

Proof key_of_connection(const std::string& token, const char* purpose, const Hello& hello,
                        const Challenge& challenge) {
  return proof(token, purpose, hello, challenge, {});
}

bool same(const Proof& a, const Proof& b) {
  std::byte difference{0};
  for (std::size_t i = 0; i < a.size(); ++i) difference |= a[i] ^ b[i];
  return difference == std::byte{0};
}

}  // namespace ft
