// The handshake by which two ends of a connection prove that they belong to one job, before either trusts the
// other's data. Each sends a random number and receives an HMAC-SHA-256 (RFC 2104) over both numbers, keyed
// with the job's token. The token itself is never sent, and a recorded handshake is useless later. The proof
// of the connecting end also covers its greeting. Nothing is encrypted.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace ft {

using Nonce = std::array<std::byte, 32>;
using Proof = std::array<std::byte, 32>;

constexpr std::uint32_t kMeshVersion = 4;  // version of handshakes and messages; other versions are refused

struct Hello {  // sent by the connecting end
  std::array<char, 8> magic = {'f', 't', ' ', 'r', 'a', 'n', 'k', 's'};
  std::uint32_t version = kMeshVersion;
  Nonce nonce{};
};

struct Challenge {  // the listening end's answer
  std::uint32_t version = kMeshVersion;
  Nonce nonce{};
  Proof proof{};
};

Nonce random_nonce();
std::string random_token();  // 32 hexadecimal digits

// The listening end's proof, and the connecting end's, which also covers its greeting.
Proof proof_of_listener(const std::string& token, const Hello&, const Nonce& own);
Proof proof_of_guest(const std::string& token, const Hello&, const Nonce& listeners,
                     std::span<const std::byte> greeting);
bool same(const Proof&, const Proof&);  // takes equally long for all inputs

}  // namespace ft
