// The handshake by which two ends of a connection prove that they belong to one job, before either trusts the
// other's data. Each sends a random number and receives an HMAC-SHA-256 (RFC 2104) over both numbers, keyed
// with the job's token. The token itself is never sent, and a recorded handshake is useless later. Proofs
// also cover both ends' distributed.encryption, and the connecting end's proof covers its greeting. The
// handshake is not encrypted: it shows names of machines, numbers of ranks and a hash of the configuration.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "engine/ranks/encryption.h"

namespace ft {

using Nonce = std::array<std::byte, 32>;
using Proof = std::array<std::byte, 32>;

constexpr std::uint16_t kMeshVersion = 5;  // version of handshakes and messages; other versions are refused

struct Hello {  // sent by the connecting end
  std::array<char, 8> magic = {'f', 't', ' ', 'r', 'a', 'n', 'k', 's'};
  std::uint16_t version = kMeshVersion, encryption = 0;  // encryption: an Encryption
  Nonce nonce{};
};

struct Challenge {  // the listening end's answer
  std::uint16_t version = kMeshVersion, encryption = 0;
  Nonce nonce{};
  Proof proof{};
};

Nonce random_nonce();
std::string random_token();  // 32 hexadecimal digits

// Return the proof of the listening end, and of the connecting end, which also covers its greeting. Neither
// covers the proof in the challenge.
Proof proof_of_listener(const std::string& token, const Hello&, const Challenge& own);
Proof proof_of_guest(const std::string& token, const Hello&, const Challenge&,
                     std::span<const std::byte> greeting);
// Returns a secret of this connection for one purpose. It differs in every handshake.
Proof key_of_connection(const std::string& token, const char* purpose, const Hello&, const Challenge&);
bool same(const Proof&, const Proof&);  // takes equally long for all inputs

}  // namespace ft
