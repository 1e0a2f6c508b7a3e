// How two ends of a connection prove to each other that they are of one job, before anything else is
// believed. Each sends a random number and gets back an HMAC-SHA-256 (RFC 2104) over both numbers, keyed with
// the job's token: the token itself never travels, and what was heard once is worth nothing later. What the
// connecting end says of itself is part of its proof. Nothing is encrypted.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace ft {

using Nonce = std::array<std::byte, 32>;
using Proof = std::array<std::byte, 32>;

constexpr std::uint32_t kMeshVersion = 4;  // of handshakes and messages; ranks of another one are refused

struct Hello {  // by the connecting side
  std::array<char, 8> magic = {'f', 't', ' ', 'r', 'a', 'n', 'k', 's'};
  std::uint32_t version = kMeshVersion;
  Nonce nonce{};
};

struct Challenge {  // the answer, by the listening side
  std::uint32_t version = kMeshVersion;
  Nonce nonce{};
  Proof proof{};
};

Nonce random_nonce();
std::string random_token();  // 32 hexadecimal digits

// By the listening side, and by the connecting side with what it says about itself.
Proof proof_of_listener(const std::string& token, const Hello&, const Nonce& own);
Proof proof_of_guest(const std::string& token, const Hello&, const Nonce& listeners,
                     std::span<const std::byte> greeting);
bool same(const Proof&, const Proof&);  // takes as long whatever they are

}  // namespace ft
